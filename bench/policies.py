"""How long a decision takes: 50,000 offers of which 5,000 or 200 fit, one price and one block changed before
each.

    python -m bench.policies [--json]

Milliseconds of processor time of the one thread, so that whatever else the machine does is left out. The
upkeep of the shelves (a changed price put in its place, the blocks filed anew) is timed apart from the
decision. Prices, chances and egress differ from offer to offer and job to job.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from policies.deciding import decide, explain
from policies.egress import CheckpointEgress, Home
from policies.model import Evidence, GpuNeed, Job, Needs, Placement, RunClass
from policies.rule import DEFAULT_RULES, Policy, Rule
from policies.shelves import Shelves
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey, Scope
from service.jobs.candidates import counts_of
from service.market.model import BlockRow
from service.market.snapshot import MarketSnapshot

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OFFERS, MANY, FEW = 50_000, 5_000, 200
BLOCKS, TRIED = 400, 2_000
CALLS = 400
REGIONS = 20
PROVIDERS = ("aws", "gcp", "azure")


@dataclass(frozen=True)
class Timed:
    """Milliseconds of many calls."""

    name: str
    took: list[float]

    def row(self) -> dict[str, Any]:
        """Median and p99, as the table shows them."""
        ordered = sorted(self.took)
        return {
            "what": self.name,
            "median_ms": round(statistics.median(ordered), 3),
            "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
            "calls": len(ordered),
        }


class Bench:
    """One market that changes a little between two looks."""

    def __init__(self, seed: int = 1) -> None:
        self.chance = Random(seed)  # noqa: S311
        self.offers = [self._offer(number) for number in range(OFFERS)]
        self.shelves = Shelves(self.offers)
        self.blocks = [self._block(number) for number in range(BLOCKS)]
        tried = self.chance.sample(self.offers, TRIED)
        self.evidence = {offer.key: self._evidence() for offer in tried}
        self.market = self._market()

    def _offer(self, number: int) -> Offer:
        card = "H100" if number < MANY else "A10" if number < MANY + FEW else f"card-{number % 9}"
        provider = PROVIDERS[number % 3]
        region = f"{provider}-{number // 3 % REGIONS}"
        zone = f"{region}-{number // 3 // REGIONS % 3}"
        name = f"{card}-{number // 9 // REGIONS}"
        type_ = InstanceType(name, card, 96, 1024.0, Accelerator(card, 8 if number < MANY else 1, 80.0))
        kind = CapacityType.SPOT if self.chance.random() < 0.5 else CapacityType.ON_DEMAND
        price = round(self.chance.uniform(8, 30) * (1.0 if kind is CapacityType.SPOT else 3.0), 4)
        key = OfferKey(provider, "main", region, zone, type_.name, kind)
        return Offer(key, type_, price)

    def _block(self, number: int) -> BlockRow:
        key = self.chance.choice(self.offers[:MANY]).key
        fields: dict[str, Any] = {"provider": key.provider, "account": key.account, "zone": key.zone}
        if number % 10:  # the clouds' refusals speak of a size in a zone, seldom of more
            fields["instance_type"] = key.instance_type
        if number % 200 == 0:
            fields = {"provider": key.provider, "region": key.region}
        scope = Scope(**fields)
        until = NOW + timedelta(minutes=self.chance.uniform(1, 30))
        return BlockRow(id=str(number), kind="capacity", scope=scope.given(), since=NOW, until=until)

    def _evidence(self) -> Evidence:
        hours = self.chance.uniform(0, 48)
        seen = NOW - timedelta(hours=self.chance.uniform(0, 3))
        return Evidence(
            self.chance.random() < 0.7,
            seen - timedelta(hours=hours),
            seen,
            hours * 3600,
            self.chance.randrange(6),
            self.chance.uniform(0, 3600 * 9),
            self.chance.randrange(6),
        )

    def _market(self) -> MarketSnapshot:
        return MarketSnapshot(self.shelves, self.blocks, {}, {}, evidence=self.evidence)

    def change(self) -> None:
        """One price and one block are other than before."""
        number = self.chance.randrange(MANY)
        self.offers[number] = replace(self.offers[number], price=round(self.chance.uniform(8, 90), 4))
        self.shelves.put(self.offers[number])
        number = self.chance.randrange(BLOCKS)
        self.blocks[number] = self._block(number)
        self.market = self._market()

    def job(self, card: str, gpus: int, *, timed: bool, running: bool = False) -> Job:
        """A job like no other: its egress, its work and its time differ."""
        work = timedelta(hours=self.chance.uniform(5, 90))
        placed = self.chance.choice(self.offers[: MANY if card == "H100" else MANY + FEW])
        return Job(
            id="j",
            run_class=RunClass.EXPLORATION,
            needs=Needs(GpuNeed(gpus, (card,))),
            submitted_at=NOW,
            waiting_since=NOW,
            deadline=NOW + work * self.chance.uniform(1.05, 2) if timed else None,
            work_left=work,
            restart=timedelta(minutes=5),
            egress=CheckpointEgress(Home(self.chance.choice(PROVIDERS), None), self.chance.uniform(1, 500)),
            placement=Placement(placed.key) if running else None,
            resumes=True,
            ran=timedelta(hours=3),
        )


def _time(call: Callable[[], Any]) -> float:
    began = time.thread_time()
    call()
    return (time.thread_time() - began) * 1000


def measure(bench: Bench, card: str, gpus: int, calls: int = CALLS) -> list[Timed]:
    """Decisions of the policies on what fits, and the upkeep before each."""
    cases = {
        "exploration, waits": ("exploration", False, False),
        "exploration, runs": ("exploration", False, True),
        "deadline, waits": ("exploration", True, False),
        "deadline, runs": ("exploration", True, True),
    }
    fits = MANY if card == "H100" else FEW
    found, upkeep = [], []
    for name, (policy, timed, running) in cases.items():
        rule, took = DEFAULT_RULES[Policy(policy)], []
        for _ in range(calls):
            upkeep.append(_time(bench.change))
            job = bench.job(card, gpus, timed=timed, running=running)
            took.append(_time(partial(decide, rule, job, bench.market, NOW)))
        found.append(Timed(f"{fits} fit: {name}", took))
    return [*found, Timed(f"{fits} fit: upkeep", upkeep)]


def measure_crowd(bench: Bench, jobs: int = 1000) -> Timed:
    """Many jobs that wait, one look at the market."""
    rule = DEFAULT_RULES[Policy.EXPLORATION]
    crowd = [bench.job("H100", 8, timed=number % 2 == 0) for number in range(jobs)]

    def each() -> None:
        for job in crowd:
            decide(rule, job, bench.market, NOW)

    took = _time(each)
    return Timed(f"{jobs} jobs that wait", [took])


def _explain(bench: Bench, rule: Rule, job: Job) -> None:
    counts_of(bench.market, job, explain(rule, job, bench.market, NOW))


def measure_explain(bench: Bench) -> Timed:
    """Every offer explained and counted, as for `corral plan`."""
    rule, took = DEFAULT_RULES[Policy.EXPLORATION], []
    for _ in range(20):
        bench.change()
        job = bench.job("H100", 8, timed=False)
        took.append(_time(partial(_explain, bench, rule, job)))
    return Timed("explain every offer", took)


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    bench = Bench()
    timed = [
        *measure(bench, "H100", 8),
        *measure(bench, "A10", 1),
        measure_crowd(bench),
        measure_explain(bench),
    ]
    rows = [one.row() for one in timed]
    if as_json:
        print(json.dumps({"offers": OFFERS, "machine": platform.processor(), "results": rows}, indent=2))
        return
    print(f"{OFFERS} offers, {BLOCKS} blocks, {TRIED} offers tried before")
    for row in rows:
        figures = f"median {row['median_ms']:9.3f}   p99 {row['p99_ms']:9.3f}   n {row['calls']}"
        print(f"{row['what']:36} {figures}")


if __name__ == "__main__":
    main()
