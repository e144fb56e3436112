"""`corral quota …` against the API on a real port: what is shown, asked and filed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlmodel import Session

from providers.memory import MemoryProvider
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import CapacityType, Scope
from service.market.model import Observation, Outcome
from service.quota_desk.model import QuotaRequest
from service.quotas.history import keep_history
from service.quotas.rows import to_row
from service.states import QuotaRequestState
from tests.api.listening import listening
from tests.api.service import Service, copied, start, template
from tests.cli.conftest import Corral

ASK = ("quota", "request", "aws/us-east-1", "H100:16", "--spot")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Service]:
    """One account that sells H100 as spot and has no quota for it."""
    made = start(tmp_path, copied(template(tmp_path), tmp_path))
    provider = MemoryProvider("main", ["us-east-1"], made.clock, provider="aws")
    made.ctx.providers = {("aws", "main"): provider}
    made.offer(capacity_type=CapacityType.SPOT)
    gates = (Scope(region="us-east-1", family="P", capacity_type=CapacityType.SPOT),)
    quota = to_row(
        "aws", "main", Quota("L-1", "All P Spot", "us-east-1", QuotaUnit.VCPU, 0, 0, gates, made.now)
    )
    made.database.write(lambda session: keep_history(session, None, quota))
    made.database.write(lambda session: session.add(quota))
    yield made
    made.client.close()
    made.client.app.state.api.close()  # type: ignore[attr-defined]
    made.database.close()


@pytest.fixture
def ours(bare: Corral, desk: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corral]:
    """The command line, pointed at it."""
    with listening(desk) as url:
        monkeypatch.setenv("CORRAL_URL", url)
        monkeypatch.setenv("CORRAL_TOKEN", desk.admin)
        yield bare


def test_a_dry_run_shows_the_limits_and_files_nothing(ours: Corral) -> None:
    done = ours(*ASK, "--dry-run")
    assert done.code == 0, done.err
    assert "room for 2 x p5.48xlarge (spot), 16 GPUs" in done.out
    assert "All P Spot" in done.out
    assert "384" in done.out
    assert ours("quota", "requests", "--json").json == []


def test_without_a_yes_nothing_is_filed(ours: Corral) -> None:
    done = ours(*ASK, stdin="n\n")
    assert (done.code, "nothing was filed" in done.err) == (1, True)
    assert ours("quota", "requests", "--json").json == []


def test_a_yes_files_it_and_it_is_listed_and_shown(ours: Corral) -> None:
    assert ours(*ASK, stdin="y\n").code == 0
    (item,) = ours("quota", "requests", "--open", "--json").json
    assert (item["state"], item["requested"], item["gpus"]) == ("draft", 384, 16)
    assert item["id"] in ours("quota", "requests").out
    assert "All P Spot" in ours("quota", "show", item["id"]).out


def test_a_proposal_is_approved_or_denied_by_id(ours: Corral) -> None:
    (item,) = ours(*ASK, "--propose", "--yes", "--json").json
    assert item["state"] == "proposed"
    assert ours("quota", "deny", item["id"], "--why", "too dear").out == f"{item['id']}: withdrawn\n"
    done = ours("quota", "approve", item["id"])
    assert done.code != 0
    assert "ask anew" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("aws", "H100:8"), "write PROVIDER/REGION"),
        (("aws/us-east-1", "H1000:8"), "not a GPU that is known"),
        (("aws/eu-west-1", "H100:8"), "not in the account's settings"),
        (("aws/us-east-1",), "give either gpu"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(ours: Corral, arguments: tuple[str, ...], said: str) -> None:
    done = ours("quota", "request", *arguments, "--yes")
    assert done.code != 0
    assert said in done.err
    assert done.err.count("\n") == 1


def test_limits_and_their_history_are_shown(ours: Corral) -> None:
    (limit,) = ours("quota", "ls", "--json").json
    assert (limit["state"], limit["limit_gpus"], limit["free_gpus"]) == ("zero", 0, 0)
    assert "zero" in ours("quota", "ls", "--gpus", "H100").out
    (reading,) = ours("quota", "history", limit["id"], "--json").json
    assert (reading["limit"], reading["usage"]) == (0, 0)
    done = ours("quota", "waits")
    assert "no requests are known yet" in done.out
    assert "no job has waited for capacity yet" in done.out
    assert ours("quota", "waits", "--json").json == {"quota": [], "capacity": []}


def test_how_long_quota_and_capacity_take_stand_beside_each_other(ours: Corral, desk: Service) -> None:
    (asked,) = ours(*ASK, "--yes", "--json").json

    def write(session: Session) -> None:
        row = session.get_one(QuotaRequest, asked["id"])
        row.state, row.granted = QuotaRequestState.APPROVED, row.requested
        row.filed_at, row.decided_at = desk.now - timedelta(days=2), desk.now
        session.add(row)
        session.add(
            Observation(
                at=desk.now,
                outcome=Outcome.GRANTED,
                provider="aws",
                account="main",
                region="us-east-1",
                zone="use1-az1",
                instance_type="p5.48xlarge",
                capacity_type=CapacityType.SPOT,
                gpu="H100",
                seconds=5400,
                attempt_id="a-1",
            )
        )

    desk.database.write(write)
    quota, capacity = ours("quota", "waits").out.split("\n\n")
    assert "9-64" in quota
    assert "2 d" in quota
    assert "100%" in quota
    assert "H100" in capacity
    assert "1 h 30 min" in capacity
