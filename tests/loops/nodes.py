"""Standing nodes in the bench of loops: machines whose agents do as they are told."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, select

from providers.vocabulary import Accelerator, InstanceType, Offer, OfferKey
from service.attempts.model import Attempt
from service.attempts.plan import NotPlanned, plan_attempt
from service.market.snapshot import snapshot
from service.nodes.enrolment import Machine, NewNode, add_node, authenticate_node, enrol
from service.nodes.model import Node
from service.nodes.polling import poll
from service.reservations.model import ReservationRow
from service.states import InstanceState
from tests.loops.bench import Bench

DGX = InstanceType("dgx", "dgx", 96, 1024, Accelerator("H100", 8, 80))


class StandingMachine:
    """A machine with an agent. `running` and `done` are what the agent knows across restarts; a `silent` one
    says nothing, neither of itself nor of its job.
    """

    def __init__(self, bench: Bench, name: str, *, type_: InstanceType = DGX, price_micros: int = 0) -> None:
        self.bench, self.name = bench, name
        self.running: str | None = None
        self.done: str | None = None
        self.silent = False
        self.lost_answers = 0
        new = NewNode(name, type_, "standing", price_micros)
        _, self.code = bench.database.write(lambda session: add_node(session, bench.ctx, new, by="test"))
        self.session = ""

    def enrol(self) -> None:
        _, self.session = self._write(lambda s: enrol(s, self.bench.ctx, self.code, self.machine))

    @property
    def machine(self) -> Machine:
        return Machine("boot-1", "0.1.0", "10.1.0.1", 96, 1 << 40, [])

    def poll(self) -> dict[str, Any]:
        """Ask once and do as told; a use that is over with its attempt is cleaned at once."""

        def ask(session: Session) -> dict[str, Any]:
            node = authenticate_node(session, self.session)
            return poll(session, self.bench.ctx, node, self.machine, running=self.running, done=self.done)

        told: dict[str, Any] = self._write(ask)
        if self.lost_answers:
            self.lost_answers -= 1
            return told
        if told["end"]:
            self.done = self.running or (told["use"] or {}).get("id") or self.done
            self.running = None
        elif told["use"] is not None:
            self.running = told["use"]["id"]
        return told

    def speak(self) -> None:
        """The agent of the attempt that it serves says what a healthy one would say."""
        for instance in self.bench.instances(InstanceState.PENDING, InstanceState.RUNNING):
            if instance.provider_id == self.running:
                self.bench.speak(instance)

    def finish(self) -> None:
        """The attempt's agent is through, and what it has left is removed."""
        self.running, self.done = None, self.running

    def row(self) -> Node:
        of_name = select(Node).where(Node.name == self.name)
        return self.bench.database.read(lambda session: session.exec(of_name).one())

    def _write(self, work: Any) -> Any:
        made = self.bench.database.write(work)
        self.bench.turn()
        return made


def enrolled(bench: Bench, *names: str, **options: Any) -> list[StandingMachine]:
    """Machines that have enrolled and spoken."""
    machines = [StandingMachine(bench, name, **options) for name in names]
    for machine in machines:
        machine.enrol()
        machine.poll()
    return machines


def pass_time(bench: Bench, seconds: float, *machines: StandingMachine) -> None:
    """Let time pass, the nodes' agents asking every ten seconds."""
    left = seconds
    while left > 0:
        bench.pass_time(min(10, left))
        left -= 10
        for machine in machines:
            if not machine.silent:
                machine.poll()
                machine.speak()
        bench.turn()


def pool(bench: Bench, name: str) -> ReservationRow | None:
    of_pool = select(ReservationRow).where(ReservationRow.id == name)
    return bench.database.read(lambda session: session.exec(of_pool).first())


def offered(bench: Bench) -> list[Offer]:
    return [
        one
        for one in bench.database.read(lambda session: snapshot(session, bench.clock.now())).offers
        if one.key.provider == "standing"
    ]


def plan(bench: Bench, key: OfferKey, **fields: Any) -> Attempt | NotPlanned:
    """Plan a new job on a pool."""
    job_id = bench.submit_job(**fields)
    made = bench.database.write(
        lambda session: plan_attempt(session, bench.ctx, job_id, Offer(key, DGX, None))
    )
    bench.ctx.wake("launcher")
    bench.turn()
    return made
