"""A small world for the whole service: clouds that lie, agents that vanish, a process that dies.

Everything follows from one seed. The clouds and the agents live by the true clock; the service by one that
may be set wrong. `Simulation.run` plays the storm, then the calm in which all must come to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from sqlmodel import Session, select

from providers.errors import ErrorKind, ProviderError
from providers.memory import Machine, MemoryCloud, MemoryProvider
from providers.vocabulary import CapacityType, InstanceState, LaunchRequest
from service.agents import reports
from service.agents.claim import claim_code
from service.agents.sessions import Hello, authenticate, hello
from service.api.problems import Problem
from service.attempts.model import Attempt, Charge
from service.context import Context
from service.instances.model import AgentState, Instance
from service.settings import Settings, Times
from service.states import JOB_OVER, AttemptState
from service.states import InstanceState as RowState
from tests.clocks import FakeClock
from tests.loops.bench import DEPLOYMENT, Bench, Killed, offer
from tests.loops.bench import cloud as make_cloud

ACCOUNTS = ("aws", "gcp", "azure")
FOREIGN = "e" * 32
STEP = 5.0
LOST = ProviderError(ErrorKind.TRANSIENT, "time-out", ambiguous=True)
BUSY = ProviderError(ErrorKind.THROTTLED, "slow down", retry_after=5)


class WrongClock(FakeClock):
    """The service's clock: the true one and an error that an operator, or NTP, changes at once."""

    def __init__(self, true: FakeClock) -> None:
        super().__init__()
        self.true = true
        self.error = timedelta(0)

    def now(self) -> datetime:
        return self.true.now() + self.error

    def monotonic(self) -> float:
        return self.true.monotonic()

    def advance(self, seconds: float) -> None:
        self.true.advance(seconds)

    def jump(self, seconds: float) -> None:
        self.error += timedelta(seconds=seconds)


@dataclass
class Agent:
    """The agent of one machine and the job on it. `writes` is the truth: what the service must never let two
    attempts do. Like the real one it kills its job when a notice's time is over, whoever listens.
    """

    machine: Machine
    attempt: str
    job: str
    work: float
    code: int
    session: str | None = None
    epoch: int = 0
    state: AgentState = AgentState.PREPARING
    writes: bool = False
    silent_until: datetime | None = None
    kill_at: datetime | None = None
    notice: bool = False
    exit: dict[str, Any] | None = None
    off: bool = False
    boots: int = 1


class SimulatedBench(Bench):
    """A bench whose clouds keep the true time, with accounts that the settings may lose."""

    removed: set[str]

    def __init__(self, folder: Path, clouds: dict[str, MemoryCloud], clock: WrongClock, seed: int) -> None:
        self.removed = set()
        self.true = clock.true
        self.steps_run = 0
        self.faults: list[str] = []
        super().__init__(folder, clouds, clock, seed=seed)
        self.settings = Settings(times=Times(boot=600, lost_after=300, resend_within=120))
        self.ctx.settings = self.settings

    def _begin(self) -> None:
        super()._begin()
        self._watch_writes()
        for name, step in list(self._steps.items()):
            self._steps[name] = self._counted(step)

    def _watch_writes(self) -> None:
        """What a transaction raises is a fault of ours, though a loop may go on after it."""
        write = self.database.write

        def watched(work: Any) -> Any:
            try:
                return write(work)
            except Problem:
                raise
            except Exception as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                raise

        self.database.write = watched  # type: ignore[method-assign]

    def _counted(self, step: Any) -> Any:
        def run(ctx: Context) -> datetime | None:
            self.steps_run += 1
            due: datetime | None = step(ctx)
            return due

        return run

    def _context(self) -> Context:
        ctx = super()._context()
        ctx.providers = self.adapters()
        return ctx

    def adapters(self) -> dict[Any, Any]:
        window = timedelta(minutes=2)
        return {
            ("memory", name): MemoryProvider(name, [f"{name}-1"], self.true, cloud, consistency_window=window)
            for name, cloud in self.clouds.items()
            if name not in self.removed
        }

    def reload(self) -> None:
        """The settings were read again."""
        self.ctx.providers = self.adapters()
        for loop in ("market", "scheduler"):
            self.ctx.wake(loop)

    def pass_time(self, seconds: float) -> None:
        """The lifecycle turns on the loops' slow beat at least, whatever the clock says."""
        self.wakes.add("lifecycle")
        super().pass_time(seconds)

    def agents(self) -> None:
        """The simulation's own agents speak instead."""


@dataclass
class Simulation:
    """One history. `told` is what happened, for whoever has to find out why an invariant broke."""

    folder: Path
    seed: int
    jobs: int = 5
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.clock = WrongClock(FakeClock())
        self.true = self.clock.true
        self.clouds = {name: self._cloud(name) for name in ACCOUNTS}
        self.bench = SimulatedBench(self.folder, self.clouds, self.clock, self.seed)
        self.people: dict[str, Agent] = {}
        self.ids: list[str] = []
        self._foreigner()

    def _cloud(self, name: str) -> MemoryCloud:
        chance = self.chance
        return make_cloud(
            self.true,
            offer(name, chance.uniform(5, 15)),
            offer(name, 20.0, capacity_type=CapacityType.ON_DEMAND),
            capacity=chance.choice([0, 1, 3, 8, None]),
            lag_seconds=chance.choice([0, 0, 20, 70]),
            boot_seconds=chance.choice([10, 30, 60]),
            terminate_seconds=chance.choice([2, 20, 90]),
            shown_seconds=chance.choice([0, 60, 3600]),
            verdict_seconds=chance.choice([None, 10]),
        )

    def _foreigner(self) -> None:
        """Somebody else's instance in the same account."""
        request = LaunchRequest(
            token=FOREIGN,
            offer=offer("aws", 10.0).key,
            nodes=1,
            user_data="",
            tags={"corral-deployment": "somebody-else"},
            disk_gib=100,
            image="image-1",
        )
        self.clouds["aws"].set_capacity(request.offer, None)
        self.bench.ctx.providers["memory", "aws"].launch(request)

    # -- the play

    def run(self, storm: int = 90, calm_seconds: float = 4 * 3600) -> None:
        for _ in range(storm):
            if len(self.ids) < self.jobs and self.chance.random() < 0.3:
                self._safely(self._submit)
            self._safely(self._trouble)
            self._tick(STEP)
        self._calm()
        end = self.true.now() + timedelta(seconds=calm_seconds)
        while self.true.now() < end and not self._is_quiet():
            self._tick(STEP * 2)
        self.check_end()

    def _tick(self, seconds: float) -> None:
        before = self.bench.steps_run
        self._safely(lambda: self.bench.pass_time(seconds))
        for person in list(self.people.values()):
            self._safely(lambda person=person: self._live(person))
        self._safely(self.bench.turn)
        self._meet()
        assert self.bench.steps_run - before < 150, f"the loops are busy: {self.bench._due}"
        self.check_always()

    def _safely(self, act: Any) -> None:
        """The process may die in the midst of it: then a new one starts."""
        try:
            act()
        except Killed:
            self._say("the process dies")
            if self.chance.random() < 0.3:
                self.true.advance(self.chance.choice([30, 400, 2000]))
            self.bench.restart()

    def _say(self, what: str) -> None:
        self.told.append(f"{self.true.now():%H:%M:%S} {what}")

    def _submit(self) -> None:
        chance = self.chance
        fields: dict[str, Any] = {
            "resources": {"gpu": {"name": ["H100"], "count": 8}, "nodes": chance.choice([1, 1, 2])},
            "retry": {"failed": chance.choice([0, 2]), "boot_failed": chance.choice([1, 3])},
            "spot": {"use": chance.choice(["auto", "only"]), "wait_seconds": chance.choice([0, 120])},
        }
        if chance.random() < 0.3:
            fields["max_duration_seconds"] = 900
        self.ids.append(self.bench.submit_job(f"job-{len(self.ids)}", **fields))

    # -- trouble

    def _trouble(self) -> None:
        chance = self.chance
        if chance.random() > 0.25:
            return
        troubles = (
            self._lose_launch, self._lose_launch, self._throttle, self._refuse_late, self._hide,
            self._preempt, self._preempt, self._mass_preempt, self._host_dies, self._silence,
            self._silence, self._cancel,
            self._kill, self._kill, self._jump, self._account_goes, self._account_returns, self._capacity,
            self._false_notice, self._lie, self._lie, self._pause, self._reboot,
        )  # fmt: skip
        trouble = chance.choice(troubles)
        self._say(trouble.__name__)
        trouble()

    def _somewhere(self) -> MemoryCloud:
        return self.clouds[self.chance.choice(ACCOUNTS)]

    def _somebody(self) -> Agent | None:
        now = self.true.now()
        there = [p for p in self.people.values() if p.machine.state(now) is InstanceState.RUNNING]
        return self.chance.choice(there) if there else None

    def _lose_launch(self) -> None:
        cloud, times = self._somewhere(), self.chance.choice([1, 1, 2, 5])
        if self.chance.random() < 0.6:
            cloud.drop_reply(times=times)
        else:
            cloud.fail("launch", LOST, times=times)
        if self.chance.random() < 0.4:
            cloud.fail("launch", BUSY, times=1)

    def _throttle(self) -> None:
        call = self.chance.choice(
            ["launch", "describe", "find", "terminate", "list_instances", "offers", "prepare"]
        )
        self._somewhere().fail(call, BUSY, times=self.chance.choice([1, 3, 10]))

    def _refuse_late(self) -> None:
        self._somewhere().refuse_later(ProviderError(ErrorKind.CAPACITY, "none after all"))

    def _hide(self) -> None:
        name = self.chance.choice(ACCOUNTS)
        call = self.chance.choice(["list_instances", "find", "offers"])
        self.clouds[name].hide(f"{name}-1", call=call, times=self.chance.choice([1, 5, 20]))

    def _preempt(self) -> None:
        if (person := self._somebody()) is not None:
            self._take(person, self.chance.choice([0, 0, 30, 120]))

    def _take(self, person: Agent, notice: float) -> None:
        cloud = self.clouds[person.machine.request.offer.account]
        cloud.preempt(person.machine.provider_id, notice)
        person.notice = person.notice or (notice > 0 and self.chance.random() < 0.8)

    def _mass_preempt(self) -> None:
        account = self.chance.choice(ACCOUNTS)
        notice = self.chance.choice([0, 30])
        for person in self.people.values():
            if person.machine.request.offer.account == account and not person.machine.over(self.true.now()):
                self._take(person, notice)

    def _host_dies(self) -> None:
        if (person := self._somebody()) is not None:
            self.clouds[person.machine.request.offer.account].kill(person.machine.provider_id)

    def _silence(self) -> None:
        if (person := self._somebody()) is not None:
            person.silent_until = self.true.now() + timedelta(seconds=self.chance.choice([30, 200, 2000]))

    def _cancel(self) -> None:
        open_ = [one for one in self.ids if self.bench.job(one).state not in JOB_OVER]
        if open_ and self.chance.random() < 0.5:
            self.bench.cancel(self.chance.choice(open_))

    def _kill(self) -> None:
        self.bench.die_at_commit(self.chance.randint(1, 12))

    def _jump(self) -> None:
        self.clock.jump(self.chance.choice([-400, -30, 30, 400, 2000]))

    def _pause(self) -> None:
        """The process is stopped, and goes on later as if nothing had been."""
        self.true.advance(self.chance.choice([100, 700, 3000]))

    def _account_goes(self) -> None:
        self.bench.removed.add(self.chance.choice(ACCOUNTS))
        self.bench.reload()

    def _account_returns(self) -> None:
        self.bench.removed.clear()
        self.bench.reload()

    def _capacity(self) -> None:
        name = self.chance.choice(ACCOUNTS)
        self.clouds[name].set_capacity(offer(name, 1.0).key, self.chance.choice([0, 1, 5, None]))

    def _false_notice(self) -> None:
        """A notice that nothing follows."""
        if (person := self._somebody()) is not None:
            person.notice = True

    def _reboot(self) -> None:
        """The instance starts again: its job is gone, and its agent says hello anew."""
        person = self._somebody()
        if person is not None and person.exit is None:
            person.boots += 1
            if person.writes or person.state is AgentState.RUNNING:
                self._finish(person, None, "lost_by_reboot")
            person.session = None

    def _lie(self) -> None:
        """Agents that say what is not so: none of it may do harm to anything but their own attempt."""
        person = self._somebody()
        if person is None or person.session is None or person.off:
            return
        far = timedelta(days=self.chance.choice([-400, 400]))
        lies: tuple[tuple[Any, dict[str, Any]], ...] = (
            (reports.heartbeat, {"epoch": person.epoch + 1, "state": AgentState.READY}),
            (reports.heartbeat, {"epoch": person.epoch - 1, "state": AgentState.RUNNING}),
            (reports.exited, {"epoch": person.epoch + 7, "exit_code": 0, "reason": "exited", "detail": ""}),
            (reports.started, {"restored": None}),
            (reports.notice, {"kind": "preemption", "deadline": self.true.now() + far, "source": "lie"}),
            (reports.checkpoint, {"name": "c-1", "size": 1}),
            (reports.heartbeat, {"state": AgentState.RUNNING}),
        )
        report, said = self.chance.choice(lies)
        self._say(f"lie: {report.__name__} {said}")
        self._report(person, report, **said)

    def _calm(self) -> None:
        """Nothing more goes wrong, and what was away comes back."""
        self._say("calm")
        self.bench.removed.clear()
        self._safely(self.bench.restart)
        for name, cloud in self.clouds.items():
            cloud.script.clear()
            cloud.verdict_seconds = None
            cloud.set_capacity(offer(name, 1.0).key, None)
        for person in self.people.values():
            person.silent_until = None
        while len(self.ids) < self.jobs:
            self._submit()

    # -- agents

    def _meet(self) -> None:
        """Machines that have come up since have an agent."""
        now = self.true.now()
        for cloud in self.clouds.values():
            for machine in cloud.live():
                tags = machine.request.tags
                if machine.provider_id + cloud_name(machine) in self.people or "corral-attempt" not in tags:
                    continue
                if machine.state(now) is not InstanceState.RUNNING:
                    continue
                chance = self.chance
                work, code = chance.choice([20, 100, 400]), chance.choice([0, 0, 0, 3])
                self.people[machine.provider_id + cloud_name(machine)] = Agent(
                    machine, tags["corral-attempt"], tags["corral-job"], work, code
                )

    def _live(self, person: Agent) -> None:
        now = self.true.now()
        if person.machine.state(now) is not InstanceState.RUNNING:
            person.writes, person.off = False, True
        if person.off:
            return
        if person.notice and person.kill_at is None:
            deadline = person.machine.notice_deadline or now + timedelta(seconds=60)
            person.kill_at = deadline
        self._work(person, now)
        if person.silent_until is not None and now < person.silent_until:
            return
        if person.session is None:
            self._hello(person)
        elif person.exit is not None:
            for _ in range(self.chance.choice([1, 2])):  # sent twice: the first answer was lost
                self._report(person, reports.exited, **person.exit, detail="")
        elif self._notices(person):
            self._beat(person)

    def _work(self, person: Agent, now: datetime) -> None:
        if not person.writes:
            return
        person.work -= STEP
        if person.kill_at is not None and now >= person.kill_at:
            self._finish(person, None, "preempted")
        elif person.work <= 0:
            self._finish(person, person.code, "exited")

    def _finish(self, person: Agent, code: int | None, reason: str) -> None:
        person.writes, person.state = False, AgentState.EXITED
        person.exit = {"exit_code": code, "reason": reason}

    def _hello(self, person: Agent) -> None:
        bench = self.bench
        code = claim_code(bench.ctx.deployment_key, person.attempt)
        said = Hello(code, person.machine.provider_id, f"boot-{person.boots}", "0.1.0", "10.0.0.1", {})
        try:
            answer = bench.database.write(lambda session: hello(session, bench.ctx, said))
        except Problem as problem:
            if problem.status in (403, 410):
                self._power_off(person)
            return
        person.session, person.epoch = answer["session"], answer["epoch"]
        bench.ctx.wake("lifecycle")

    def _notices(self, person: Agent) -> bool:
        if person.kill_at is None:
            return True
        return self._report(
            person, reports.notice, kind="preemption", deadline=person.kill_at, source="metadata"
        )[0]

    def _beat(self, person: Agent) -> None:
        if person.state is AgentState.PREPARING:
            person.state = AgentState.READY
        _, answer = self._report(person, reports.heartbeat, state=person.state)
        if answer is None:
            return
        if answer.directive == "start" and person.state is AgentState.READY:
            person.state, person.writes = AgentState.RUNNING, True
            self._report(person, reports.started, restored=None)
        elif answer.directive in ("drain", "stop"):
            if person.state is not AgentState.DRAINING:
                person.state = AgentState.DRAINING
                late = timedelta(seconds=min(answer.grace_seconds or 0, self.chance.choice([0, 20])))
                person.kill_at = min(person.kill_at or self.true.now() + late, self.true.now() + late)
            if not person.writes:
                self._finish(person, None, "preempted" if answer.directive == "drain" else "stopped")
        elif answer.directive == "end":
            self._power_off(person)

    def _report(self, person: Agent, report: Any, **said: Any) -> tuple[bool, Any]:
        """Whether it was taken, and the answer. A refusal that is not about a lie stops the job."""
        honest = "epoch" not in said
        said = {"epoch": person.epoch} | said

        def call(session: Session) -> Any:
            instance, attempt = authenticate(session, person.session or "")
            return report(session, self.bench.ctx, instance, attempt, **said)

        try:
            return True, self.bench.database.write(call)
        except Problem as problem:
            if honest and problem.status in (401, 409, 410):
                self._power_off(person)
            return False, None

    def _power_off(self, person: Agent) -> None:
        person.writes, person.off = False, True
        self.clouds[person.machine.request.offer.account].power_off(person.machine.provider_id)

    # -- invariants

    def check_always(self) -> None:
        assert not self.bench.faults, self.bench.faults
        now = self.true.now()
        writers: dict[str, set[str]] = {}
        for person in self.people.values():
            if person.writes and person.machine.state(now) is InstanceState.RUNNING:
                writers.setdefault(person.job, set()).add(person.attempt)
        for job, attempts in writers.items():
            assert len(attempts) <= 1, f"two attempts of {job} write: {attempts}"
        for cloud in self.clouds.values():
            for token, request in {m.token: m.request for m in cloud.created}.items():
                assert len(cloud.made(token)) == request.nodes, f"token {token} made more than one gang"

    def _is_quiet(self) -> bool:
        if any(self.bench.job(one).state not in JOB_OVER for one in self.ids):
            return False
        if any(row.state is not RowState.TERMINATED for row in self.bench.instances()):
            return False
        return not self._ours_alive()

    def _ours_alive(self) -> list[Machine]:
        live = [m for cloud in self.clouds.values() for m in cloud.live()]
        return [m for m in live if m.request.tags["corral-deployment"] == DEPLOYMENT]

    def check_end(self) -> None:
        for one in self.ids:
            job = self.bench.job(one)
            assert job.state in JOB_OVER, f"{one} is {job.state}: {job.detail}"
        assert not self._ours_alive(), "instances are left"
        rows = self.bench.database.read(lambda session: list(session.exec(select(Instance)).all()))
        left = [(row.id, row.state, row.reason) for row in rows if row.state is not RowState.TERMINATED]
        assert not left, f"rows are left: {left}"
        attempts = self.bench.database.read(lambda session: list(session.exec(select(Attempt)).all()))
        assert all(attempt.state is AttemptState.ENDED for attempt in attempts)
        charges = self.bench.database.read(lambda session: list(session.exec(select(Charge)).all()))
        pairs = [(charge.attempt_id, charge.instance_id) for charge in charges]
        assert len(pairs) == len(set(pairs)), "charged twice"
        for charge in charges:
            assert charge.ends is not None, f"{charge.instance_id} is still charged"
            assert charge.ends >= charge.starts
        (foreign,) = self.clouds["aws"].made(FOREIGN)
        assert foreign.stopping_at is None, "somebody else's instance was ended"


def cloud_name(machine: Machine) -> str:
    return f"@{machine.request.offer.account}"
