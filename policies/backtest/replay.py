"""The bridge from the replay to `decide`: the policy that is measured is the one that the service runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from policies.backtest.problem import Problem
from policies.backtest.simulation import Act, Mode, Simulation
from policies.estimates import observe
from policies.model import (
    Block,
    Decision,
    Evidence,
    Job,
    Launch,
    Move,
    Needs,
    ObservedMarket,
    Placement,
    Probe,
    RunClass,
    Stop,
)
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey, Scope

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Decide = Callable[[Job, ObservedMarket, datetime], Decision]
_TYPE = InstanceType("recorded", "recorded", 1, 1.0)


@dataclass
class ReplayedMarket:
    """The market of a tick, as `policies.model.ObservedMarket`."""

    offers: list[Offer]
    evidence: dict[OfferKey, Evidence] = field(default_factory=dict)
    blocked: dict[OfferKey, Block] = field(default_factory=dict)
    observations: Mapping[str, float] = field(default_factory=dict)

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        """Refused, or seen to be without capacity, in this tick."""
        return self.blocked.get(offer.key)


class Replay:
    """Plays one problem by asking `decide` until a tick is settled."""

    def __init__(
        self, problem: Problem, decide: Decide, *, probes: bool = True, money: float | None = None
    ) -> None:
        self._problem = problem
        self._decide = decide
        self._probes = probes
        self._money = money
        self._given_up = False
        self._spot = [_key(problem, zone, CapacityType.SPOT) for zone in range(len(problem.zones))]
        self._on_demand = [_key(problem, zone, CapacityType.ON_DEMAND) for zone in range(len(problem.zones))]
        self._zone_of = {key: zone for keys in (self._spot, self._on_demand) for zone, key in enumerate(keys)}
        self._market = ReplayedMarket([])
        self._fixed = [
            Offer(key, _TYPE, zone.on_demand_price)
            for key, zone in zip(self._on_demand, problem.zones, strict=True)
        ]

    def act(self, state: Simulation) -> None:
        """One tick."""
        now = EPOCH + timedelta(seconds=state.tick * self._problem.gap)
        self._look(state, now)
        for _ in range(3 * len(self._spot) + 3):
            if self._given_up or state.launched:
                return
            decision = self._decide(self._job(state), self._market, now)
            if isinstance(decision, Stop):
                state.stop()
                self._given_up = True
            elif isinstance(decision, Launch | Move):
                if self._start(state, decision.offers, now):
                    return
            elif not (isinstance(decision, Probe) and self._probes):
                return
            else:
                self._probe(state, decision.offers, now)

    def _start(self, state: Simulation, offers: tuple[Offer, ...], now: datetime) -> bool:
        for offer in offers:
            zone = self._zone_of[offer.key]
            if offer.key.capacity_type is CapacityType.ON_DEMAND:
                state.start_on_demand(zone)
                return True
            granted = state.try_spot(zone)
            self._note(zone, granted, now)
            if granted:
                return True
        return False

    def _probe(self, state: Simulation, offers: tuple[Offer, ...], now: datetime) -> None:
        for offer in offers:
            zone = self._zone_of[offer.key]
            self._note(zone, state.probe(zone), now)

    def _look(self, state: Simulation, now: datetime) -> None:
        """What a tick shows without asking: prices, losses, that what runs has capacity."""
        self._market.blocked.clear()
        self._market.offers = [
            *self._fixed,
            *(Offer(key, _TYPE, state.spot_price(zone)) for zone, key in enumerate(self._spot)),
        ]
        for zone in range(len(self._spot)):
            seen = state.visible(zone)
            if zone == state.lost:
                seen = False
            elif state.mode is Mode.SPOT and state.zone == zone:
                seen = True
            if seen is not None:
                self._note(zone, seen, now)

    def _note(self, zone: int, available: bool, now: datetime) -> None:
        key = self._spot[zone]
        self._market.evidence[key] = observe(self._market.evidence.get(key), available, now)
        if not available:
            until = now + timedelta(seconds=self._problem.gap)
            scope = Scope(zone=key.zone, capacity_type=CapacityType.SPOT)
            self._market.blocked[key] = Block(scope, "stock_out", now, until)

    def _job(self, state: Simulation) -> Job:
        problem = self._problem
        placement = None
        if state.zone is not None:
            keys = self._spot if state.mode is Mode.SPOT else self._on_demand
            placement = Placement(keys[state.zone], timedelta(seconds=state.pending))
        egress = {}
        if state.checkpoint is not None:
            egress = {
                (key.provider, key.region, key.zone): problem.egress[state.checkpoint][zone]
                for zone, key in enumerate(self._spot)
                if zone != state.checkpoint
            }
        return Job(
            id=problem.name,
            run_class=RunClass.EXPLORATION,
            needs=Needs(),
            submitted_at=EPOCH,
            waiting_since=EPOCH,
            deadline=EPOCH + timedelta(seconds=problem.ticks * problem.gap),
            work_left=timedelta(seconds=state.work_left),
            restart=timedelta(seconds=problem.restart),
            step=timedelta(seconds=problem.gap),
            egress=egress,
            money_left=None if self._money is None else self._money - state.bill.total,
            placement=placement,
        )


def policy(decide: Decide, problem: Problem, *, probes: bool = True, money: float | None = None) -> Act:
    """How `decide` plays a problem. `money` is a cap in USD."""
    return Replay(problem, decide, probes=probes, money=money).act


def _key(problem: Problem, zone: int, capacity_type: CapacityType) -> OfferKey:
    place = problem.zones[zone]
    return OfferKey(
        place.provider, "recorded", place.region, f"{zone:03d}-{place.name}", _TYPE.name, capacity_type
    )
