"""Two nodes over the real adapters, faces and agents: ranks, the loss of one, and the gang again."""

from __future__ import annotations

import re
import time
from pathlib import Path

from service.cli.client import Client
from service.cli.demo.stage import Stage

RUN = """
ips=$(echo "$CORRAL_NODE_IPS" | tr '\\n' ',')
echo "rank $CORRAL_NODE_RANK of $CORRAL_NUM_NODES, $ips at $MASTER_ADDR:$MASTER_PORT"
sleep 4
"""
SPEC = {
    "name": "gang",
    "resources": {"gpu": "H100:8", "nodes": 2},
    "run": RUN,
    "spot": "auto",
    "max_duration": "1h",
}
LONGEST = 60.0  # real seconds


def test_a_gang_of_two_runs_with_ranks_loses_a_node_and_starts_again_as_a_gang(tmp_path: Path) -> None:
    scenario = Path(__file__).with_name("gang.yaml")
    with Stage(tmp_path, scenario, 15.0, {"times": {"poll_instances": 15}}, {"aws": ["us-east-1"]}) as stage:
        stage.start_clouds()
        stage.initialise()
        stage.start_service()
        with stage.client() as client:
            job = client.post("/v1/jobs", SPEC)["id"]
            state = _until_over(client, job)
            attempts = client.get(f"/v1/jobs/{job}/attempts")["items"]
            attempts.sort(key=lambda attempt: attempt["number"])
            said = [
                b"".join(client.download(f"/v1/jobs/{job}/logs", {"rank": rank, "attempt": number})).decode()
                for number in (1, 2)
                for rank in (0, 1)
            ]
        _until_nothing_is_left(stage)
        machines = stage.machines()
    assert state == "succeeded"
    assert [(attempt["nodes"], attempt["reason"]) for attempt in attempts] == [(2, "lost"), (2, "succeeded")]
    ranks = [re.findall(r"rank (\d) of (\d), (\S+) at (\S+)", text) for text in said]
    assert [found[0][:2] for found in ranks] == [("0", "2"), ("1", "2")] * 2, said
    assert ranks[2][0][2:] == ranks[3][0][2:], "one gang, one meeting point"
    assert len(machines) == 4


def _until_over(client: Client, job: str) -> str:
    until = time.monotonic() + LONGEST
    while (state := client.get(f"/v1/jobs/{job}")["state"]) not in ("succeeded", "failed", "cancelled"):
        assert time.monotonic() < until, client.get(f"/v1/jobs/{job}/events")
        time.sleep(0.1)
    return str(state)


def _until_nothing_is_left(stage: Stage) -> None:
    until = time.monotonic() + LONGEST
    while any(machine["state"] != "terminated" for machine in stage.machines()):
        assert time.monotonic() < until, stage.machines()
        time.sleep(0.1)
