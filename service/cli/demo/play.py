"""Plays the demo: sets the stage, submits, tells what happens, judges."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from service.cli.client import Client
from service.cli.demo import training
from service.cli.demo.stage import PROVIDERS, Stage
from service.cli.demo.story import TIMELINE_COLUMNS, Story, timeline
from service.cli.demo.verdict import Outcome, checksum_of, failures, lost_steps
from service.cli.failure import CommandError, UsageError
from service.cli.follow import EventTail, Patience
from service.cli.jobs import OVER
from service.cli.show import dollars, line, table

SCENARIO = Path(__file__).with_name("scenario.yaml")
LOOK_SECONDS = 0.1
MARKET_SECONDS = 60.0
JOB_SECONDS = 150.0
CLEAN_SECONDS = 30.0


def play(directory: Path | None, scale: float) -> None:
    """The whole demo. CommandError says what did not come true, or what could not be started."""
    with _ended_by_signals(), _folder(directory) as folder, Stage(folder, SCENARIO, scale, {}) as stage:
        line(f"starting three local clouds and the service, on a clock that runs {scale:g} times as fast")
        stage.start_clouds()
        line("clouds: EC2, Compute Engine and Azure Resource Manager answer")
        stage.initialise()
        stage.start_service()
        line(f"service: {stage.url}/docs; reads what the clouds sell, and for how much")
        with stage.client() as client:
            _show_market(wait_for_market(client, scale, PROVIDERS))
            job = training.send(client, scale)
            line()
            line(f"corral run: {job['name']} asks for 8 x H100, spot if possible")
            story = Story(job["submitted_at"])
            checksum = checksum_of(training.uninterrupted()) or "none"
            watch(stage, client, job["id"], story)
            outcome = gather(stage, client, job["id"], checksum)
        _conclude(outcome, story, scale)


def wait_for_market(client: Client, scale: float, providers: Sequence[str]) -> list[dict[str, Any]]:
    """The ranked offers for the job, once each of the clouds has been read."""
    until = time.monotonic() + MARKET_SECONDS
    while time.monotonic() < until:
        plan = client.post("/v1/jobs:plan", training.spec(None, scale))
        offers: list[dict[str, Any]] = plan["offers"]
        if {offer["provider"] for offer in offers} == set(providers):
            return offers
        time.sleep(LOOK_SECONDS)
    raise CommandError(f"not every cloud was read within {MARKET_SECONDS:g} s")


def watch(stage: Stage, client: Client, job_id: str, story: Story | None) -> None:
    """Tell each event as it comes, until the job is over and the clouds are empty, or too long has passed."""
    tail, patience = EventTail(client, job_id), Patience(JOB_SECONDS, lambda _text: None)
    until = time.monotonic() + JOB_SECONDS
    over = False
    while time.monotonic() < until:
        try:
            if not over and client.get(f"/v1/jobs/{job_id}")["state"] in OVER:
                over, until = True, min(until, time.monotonic() + CLEAN_SECONDS)
            for event in tail.new():
                told = story.line(event) if story else None
                if told is not None:
                    line(told)
            patience.answered()
            if over and not stage.ledger()["live"] and not client.get("/v1/instances")["items"]:
                return
        except CommandError as error:
            patience.failed(error)
        time.sleep(LOOK_SECONDS)


def gather(stage: Stage, client: Client, job_id: str, checksum: str) -> Outcome:
    """What everyone says at the end."""
    attempts = client.get(f"/v1/jobs/{job_id}/attempts")["items"]
    logs = {}
    for attempt in attempts:
        if attempt["running_at"] is not None:
            parts = client.download(f"/v1/jobs/{job_id}/logs", {"attempt": attempt["number"]})
            logs[attempt["number"]] = b"".join(parts).decode()
    return Outcome(
        job=client.get(f"/v1/jobs/{job_id}"),
        attempts=attempts,
        logs=logs,
        machines=stage.machines(),
        ledger=stage.ledger(),
        checksum=checksum,
    )


def _show_market(offers: list[dict[str, Any]]) -> None:
    rows = [
        (
            offer["rank"],
            f"{offer['provider']}/{offer['zone']}",
            offer["instance_type"],
            offer["capacity_type"],
            dollars(offer["price_usd_hour"]),
        )
        for offer in offers[:6]
    ]
    line()
    line("corral plan: the cheapest offers of 8 x H100, of three clouds")
    table(("RANK", "WHERE", "TYPE", "CAPACITY", "PRICE/H"), rows, empty="no offers")


def _conclude(outcome: Outcome, story: Story, scale: float) -> None:
    lost: dict[int, float] = {}
    ran = [one for one in outcome.attempts if one["number"] in outcome.logs]
    for before, after in pairwise(ran):
        steps = lost_steps(outcome.logs, before, after)
        lost[before["number"]] = steps * training.STEP_SECONDS * scale
    line()
    line("Timeline, in seconds of the clouds' clock")
    table(TIMELINE_COLUMNS, timeline(outcome.attempts, lost, story), empty="no attempts")
    sums = [found for log in outcome.logs.values() if (found := checksum_of(log))]
    live = [item["provider"] for item in outcome.ledger["live"] if item["kind"] == "instance"]
    counts = ", ".join(f"{name} {live.count(name)}" for name in PROVIDERS)
    made = outcome.ledger["objects"]["instance"]["made"]
    line()
    line(f"checksum   {', '.join(sums) or 'none'}; uninterrupted: {outcome.checksum}")
    line(f"instances  {made} made; left over: {counts}")
    booked = dollars(outcome.job["cost_usd"])
    line(f"cost       {booked} booked; the clouds' bill: {_bill(outcome)}")
    problems = failures(outcome)
    if problems:
        raise CommandError(f"the demo did not come true: {'; '.join(problems)}")
    line("All of it came true.")


def _bill(outcome: Outcome) -> str:
    return dollars(float(outcome.ledger["bill"]["total"]))


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """A folder of ours alone; a temporary one is deleted unless something went wrong."""
    if given is not None:
        try:
            given.mkdir(parents=True, exist_ok=True, mode=0o700)
            if any(given.iterdir()):
                raise UsageError(f"{given}: is not empty")
        except OSError as error:
            raise UsageError(f"{given}: {error.strerror}") from error
        yield given.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="corral-demo-"))
    try:
        yield made
    except CommandError as error:
        raise CommandError(f"{error.message}; what it left is in {made}", error.code) from error
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: in good order."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
