"""kill -9 of the service at seeded moments: one job must succeed, nothing is launched twice, nothing is left.

    python -m bench.kills --seed 7 --moments 20        # or: make kills SEED=7

Each moment is a run of the demo's scenario of its own: every other one any time in it, the others just after
something has happened, where more is half done. The clouds and the agents live on while the service is dead;
then it is started again on what it left. Exit code 1 if any run ended otherwise than it must.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from service.cli.client import Client
from service.cli.demo import training
from service.cli.demo.play import SCENARIO, gather, wait_for_market, watch
from service.cli.demo.stage import PROVIDERS, Stage
from service.cli.demo.verdict import checksum_of, survival_failures
from service.cli.failure import CommandError
from service.cli.follow import EventTail

SCALE = 10.0
LOOK_SECONDS = 0.01
SPAN_SECONDS = 19.0  # real: how long the demo's job takes, from its submission until the clouds are empty


@dataclass(frozen=True)
class Moment:
    """`seconds` (real) after the job's submission, or after the `nth` event of a kind."""

    seconds: float
    kind: str | None = None
    nth: int = 1

    def __str__(self) -> str:
        after = f"after {self.kind} {self.nth}" if self.kind else "after submission"
        return f"{self.seconds:.3f} s {after}"


ANCHORS = (
    ("job_submitted", 1),
    ("attempt_planned", 1),
    ("attempt_planned", 2),
    ("attempt_booting", 1),
    ("agent_hello", 1),
    ("instance_notice", 1),
    ("attempt_planned", 3),
    ("agent_hello", 2),
    ("job_process_exited", 1),
    ("job_process_started", 2),
    ("job_process_exited", 2),
)
CLOSE_SECONDS = 0.3


def draw(chance: random.Random, number: int) -> Moment:
    """The moment of the run of that number."""
    if number % 2:
        return Moment(chance.uniform(0, SPAN_SECONDS))
    kind, nth = chance.choice(ANCHORS)
    return Moment(chance.uniform(0, CLOSE_SECONDS), kind, nth)


@dataclass(frozen=True)
class Play:
    """What is played: a scenario, its speed, the job's length, and which regions of which clouds are used."""

    scenario: Path = SCENARIO
    scale: float = SCALE
    steps: int = training.STEPS
    settings: Mapping[str, Any] | None = None
    regions: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True)
class Result:
    """One run: when the service was killed, and what was wrong after."""

    moments: tuple[str, ...]
    problems: tuple[str, ...]
    attempts: tuple[str, ...]
    seconds: float


def trial(folder: Path, moments: Sequence[Moment], play: Play, checksum: str) -> Result:
    """Play once in an empty folder, kill at each of the moments, start again each time."""
    started = time.monotonic()
    with Stage(folder, play.scenario, play.scale, play.settings or {}, play.regions) as stage:
        stage.start_clouds()
        stage.initialise()
        stage.start_service()
        with stage.client() as client:
            wait_for_market(client, play.scale, tuple(play.regions or PROVIDERS))
            submitted = time.monotonic()
            job = training.send(client, play.scale, play.steps)
            for moment in moments:
                await_moment(client, job["id"], submitted, moment)
                stage.kill_service()
                stage.start_service()
            watch(stage, client, job["id"], None)
            outcome = gather(stage, client, job["id"], checksum)
    return Result(
        moments=tuple(map(str, moments)),
        problems=tuple(survival_failures(outcome)),
        attempts=tuple(f"{one['provider']}/{one['zone']} {one['reason']}" for one in outcome.attempts),
        seconds=round(time.monotonic() - started, 1),
    )


def await_moment(client: Client, job_id: str, submitted: float, moment: Moment) -> None:
    """Sleep until the moment; one whose event does not come is at the end of the span."""
    start = submitted
    if moment.kind is not None:
        tail, left = EventTail(client, job_id), moment.nth
        while time.monotonic() < submitted + SPAN_SECONDS:
            left -= sum(event["kind"] == moment.kind for event in tail.new())
            if left <= 0:
                start = time.monotonic()
                break
            time.sleep(LOOK_SECONDS)
    time.sleep(max(0.0, start + moment.seconds - time.monotonic()))


def expected(steps: int) -> str:
    """The checksum of a run that nothing interrupts, really run."""
    found = checksum_of(training.uninterrupted(steps))
    if found is None:
        raise CommandError("the training script did not finish here")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="kill -9 of the service at seeded moments of the demo.")
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON at the end")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}; {options.moments} moments", flush=True)
    chance = random.Random(seed)  # noqa: S311 - to be repeatable is the point
    play, checksum = Play(), expected(training.STEPS)
    results: list[Result] = []
    for number in range(1, options.moments + 1):
        moment = draw(chance, number)
        folder = Path(tempfile.mkdtemp(prefix="corral-kills-"))
        try:
            result = trial(folder, [moment], play, checksum)
        except CommandError as error:
            result = Result((str(moment),), (error.message,), (), 0.0)
        results.append(result)
        what = "; ".join(result.problems) or "as it must be"
        where = "" if not result.problems else f"; see {folder}"
        ran = ", ".join(result.attempts)
        print(f"{number:>3}  killed {moment}: {ran}: {what}{where}", flush=True)
        if not result.problems:
            shutil.rmtree(folder, ignore_errors=True)
    bad = sum(bool(result.problems) for result in results)
    if options.json:
        print(json.dumps({"seed": seed, "runs": [asdict(result) for result in results]}, indent=2))
    print(f"seed {seed}: {len(results) - bad} of {len(results)} runs ended as they must")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
