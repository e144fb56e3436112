"""The whole service without HTTP, threads or sleep: clouds in memory, a clock moved by hand, calls queued."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from sqlmodel import Session, col, select

from clock import Clock
from policies.model import SpotUse
from providers.memory import MemoryCloud, MemoryProvider
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey
from service.agents import reports
from service.agents.claim import claim_code
from service.agents.directives import Answer
from service.agents.sessions import Hello, hello
from service.attempts.model import Attempt
from service.attempts.rows import attempt_of_instance, instances_of
from service.context import STANDING, Context, Place
from service.db import Database
from service.events.model import Event
from service.identifiers import new_id
from service.instances.model import AgentState, Instance
from service.jobs.cancellation import cancel_job
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.loops import Step, steps
from service.nodes.provider import StandingProvider
from service.projects.model import Deployment, Project
from service.schema import metadata
from service.settings import Settings, Times
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock

H100 = InstanceType("gpu-8", "H100", 96, 1024, Accelerator("H100", 8, 80))
DEPLOYMENT = "test-deployment"


class MemoryStore:
    """Bytes by key, in a dictionary."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key]

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


@cache
def _empty_database() -> bytes:
    """The schema as a file, made once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        database = Database(f"sqlite:///{path}")
        metadata.create_all(database.engine)
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        return path.read_bytes()


class Killed(BaseException):
    """The process dies here. Not an Exception: nothing may catch it."""


class Bench:
    """One service process over one database file. `restart` is what a new process finds."""

    def __init__(
        self,
        folder: Path,
        clouds: dict[str, MemoryCloud],
        clock: FakeClock,
        *,
        seed: int = 1,
        url: str | None = None,
    ) -> None:
        self.clock = clock
        self.clouds = clouds
        self._url = url or f"sqlite:///{folder / 'corral.db'}"
        self._seed = seed
        self._incarnation = 0
        self.settings = Settings(times=Times(boot=600))
        self.store = MemoryStore()
        self.environment: dict[str, str] = {}
        self.calls: deque[Callable[[], None]] = deque()
        if url is None:
            (folder / "corral.db").write_bytes(_empty_database())
        self.database = Database(self._url)
        if url is not None:
            metadata.create_all(self.database.engine)
        self.database.write(self._found)
        self.ctx = self._context()
        self._heartbeat = timedelta(seconds=15)
        self._agents_at = clock.now()
        self._begin()
        self.turn()  # the market is known before the first job comes

    def restart(self) -> None:
        """A new process: whatever was queued or remembered in memory is gone."""
        self.calls.clear()
        self.database.close()
        self.database = Database(self._url)
        self._incarnation += 1
        self.ctx = self._context()
        self._begin()

    def _begin(self) -> None:
        self._steps: dict[str, Step] = steps()
        self._due: dict[str, datetime | None] = {}
        self.wakes: set[str] = set(self._steps)

    def submit_job(self, name: str = "train", **fields: Any) -> str:
        """A job that wants one node with eight H100, unless the fields say otherwise."""
        spec = JobSpec.model_validate(
            {"name": name, "run": "python train.py", "resources": {"gpu": {"name": ["H100"], "count": 8}}}
            | fields
        )
        now = self.clock.now()
        job = Job(
            id=new_id("j", now, self.ctx.chance),
            project_id="p-1",
            name=spec.name,
            run_class=spec.run_class,
            priority=spec.priority,
            spec=spec.model_dump(mode="json", by_alias=True),
            body_hash="0" * 64,
            submitted_by="test",
            submitted_at=now,
            waiting_since=now,
            wake_at=now,
            deadline=spec.deadline,
        )
        self.database.write(lambda session: session.add(job))
        self.ctx.wake("scheduler")
        return job.id

    def turn(self) -> None:
        """At this moment: run every loop that is due or was woken, and every call, until all is quiet."""
        for _ in range(200):
            ready = [name for name in self._steps if name in self.wakes or self._is_due(name)]
            if not ready and not self.calls:
                return
            for name in ready:
                self.wakes.discard(name)
                self._due[name] = self._steps[name](self.ctx)
            while self.calls:
                self.calls.popleft()()
        raise AssertionError(f"the loops do not come to rest: {self.wakes} {self._due}")

    def pass_time(self, seconds: float) -> None:
        """Let time pass: from one moment at which something is due to the next, the agents speaking."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while (now := self.clock.now()) < end:
            dues = [due for due in self._due.values() if due is not None and due > now]
            until = min([*dues, now + self._heartbeat, end])
            self.clock.advance((until - now).total_seconds())
            self.turn()
            if self.clock.now() >= self._agents_at:
                self._agents_at = self.clock.now() + self._heartbeat
                self.agents()
                self.turn()

    def _is_due(self, name: str) -> bool:
        due = self._due.get(name)
        return due is not None and due <= self.clock.now()

    def agents(self) -> None:
        """Every instance that runs in a cloud has an agent that does as it is told."""
        for instance in self.instances(InstanceState.PENDING, InstanceState.RUNNING):
            machine = self._machine(instance)
            if (
                instance.purpose == "attempt"
                and machine is not None
                and machine.state(self.clock.now()) == "running"
            ):
                self.speak(instance)

    def speak(self, instance: Instance) -> Answer | None:
        """One agent says what a healthy one would say next."""
        if instance.session_hash is None and instance.agent_state is None:
            self.hello(instance)
            return None
        state = instance.agent_state
        if state is AgentState.PREPARING:
            state = AgentState.READY
        answer = self.beat(instance, state or AgentState.READY)
        if answer.directive == "start":
            self._report(instance, reports.started, restored=None)
        elif answer.directive in ("drain", "stop"):
            reason = "preempted" if answer.directive == "drain" else "stopped"
            self.exit(instance, None, reason)
        return answer

    def hello(self, instance: Instance) -> None:
        attempt = self.database.read(lambda session: attempt_of_instance(session, instance.id))
        assert attempt is not None
        code = claim_code(self.ctx.deployment_key, attempt.id)
        said = Hello(code, instance.provider_id or "", "boot-1", "0.1.0", "10.0.0.1", {})
        self.database.write(lambda session: hello(session, self.ctx, said))
        self.ctx.wake("lifecycle")

    def beat(self, instance: Instance, state: AgentState) -> Answer:
        return self._report(instance, reports.heartbeat, state=state)  # type: ignore[no-any-return]

    def exit(self, instance: Instance, code: int | None = 0, reason: str = "exited") -> None:
        self._report(instance, reports.exited, exit_code=code, reason=reason, detail="")

    def notice(self, instance: Instance, seconds: float | None, kind: str = "preemption") -> None:
        deadline = None if seconds is None else self.clock.now() + timedelta(seconds=seconds)
        self._report(instance, reports.notice, kind=kind, deadline=deadline, source="test")

    def _report(self, instance: Instance, report: Callable[..., Any], **said: Any) -> Any:
        def call(session: Session) -> Any:
            row = session.get_one(Instance, instance.id)
            attempt = attempt_of_instance(session, row.id)
            assert attempt is not None
            return report(session, self.ctx, row, attempt, epoch=attempt.epoch, **said)

        return self.database.write(call)

    def job(self, job_id: str) -> Job:
        return self.database.read(lambda session: session.get_one(Job, job_id))

    def attempts(self, job_id: str) -> list[Attempt]:
        return self.database.read(
            lambda session: list(
                session.exec(
                    select(Attempt).where(Attempt.job_id == job_id).order_by(col(Attempt.number))
                ).all()
            )
        )

    def live_attempt(self, job_id: str) -> Attempt:
        (attempt,) = [a for a in self.attempts(job_id) if a.state is not AttemptState.ENDED]
        return attempt

    def live_attempts(self, job_id: str) -> list[Attempt]:
        return [a for a in self.attempts(job_id) if a.state is not AttemptState.ENDED]

    def cancel(self, job_id: str) -> None:
        """What the API does when someone cancels a job."""
        self.database.write(lambda session: cancel_job(session, job_id, by="test", now=self.clock.now()))
        for loop in ("lifecycle", "launcher"):
            self.ctx.wake(loop)

    def die_at_commit(self, number: int) -> None:
        """The process is killed right after its `number`th commit from now."""
        write, left = self.database.write, [number]

        def counted(work: Callable[[Session], Any]) -> Any:
            result = write(work)
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return result

        self.database.write = counted  # type: ignore[method-assign]

    def nodes(self, attempt: Attempt) -> list[Instance]:
        return self.database.read(lambda session: list(instances_of(session, attempt.id)))

    def instances(self, *states: InstanceState) -> list[Instance]:
        statement = select(Instance).where(col(Instance.state).in_(states or tuple(InstanceState)))
        return self.database.read(lambda session: list(session.exec(statement).all()))

    def events(self, kind: str | None = None) -> list[Event]:
        statement = select(Event).order_by(col(Event.id))
        if kind is not None:
            statement = statement.where(Event.kind == kind)
        return self.database.read(lambda session: list(session.exec(statement).all()))

    def run_until(self, job_id: str, *states: JobState, within: float = 3600) -> Job:
        """Turn the loops until the job is in one of the states; fails where it takes longer."""
        left = within
        while self.job(job_id).state not in states:
            assert left > 0, f"{self.job(job_id).state}: {[e.message for e in self.events()]}"
            self.pass_time(5)
            left -= 5
        return self.job(job_id)

    def alive(self) -> list[Any]:
        """Everything that some cloud still bills."""
        now = self.clock.now()
        return [
            m for cloud in self.clouds.values() for m in cloud.created if m.state(now) not in ("terminated",)
        ]

    def _machine(self, instance: Instance) -> Any:
        cloud = self.clouds.get(instance.account)
        return cloud and next((m for m in cloud.created if m.provider_id == instance.provider_id), None)

    def _context(self) -> Context:
        ctx = Context(
            clock=self.clock,
            chance=Random(self._seed + self._incarnation),
            database=self.database,
            settings=self.settings,
            deployment_id=DEPLOYMENT,
            deployment_key=b"k" * 32,
            service_url="http://127.0.0.1:1",
            store=self.store,
            submit=self._submit,
            wake=lambda name: self.wakes.add(name),
            owner=f"process-{self._incarnation}",
            environment=self.environment,
            providers={
                ("memory", name): MemoryProvider(name, [f"{name}-1"], self.clock, cloud)
                for name, cloud in self.clouds.items()
            },
        )
        ctx.standing = StandingProvider(ctx)
        return ctx

    def _submit(self, place: Place, call: Callable[[], None]) -> None:
        assert place[0] in ("memory", STANDING, "retention", "notifications")
        self.calls.append(call)

    def _found(self, session: Session) -> None:
        now = self.clock.now()
        session.add(Deployment(id=DEPLOYMENT, created_at=now))
        session.add(Project(id="p-1", name="research", created_at=now))


def offer(
    account: str,
    price: float | None,
    *,
    zone: str = "a",
    capacity_type: CapacityType = CapacityType.SPOT,
    type_: InstanceType = H100,
) -> Offer:
    """Eight H100 in zone `ACCOUNT-1a` for a price."""
    region = f"{account}-1"
    return Offer(
        OfferKey("memory", account, region, f"{region}{zone}", type_.name, capacity_type), type_, price
    )


def cloud(clock: Clock, *offers: Offer, capacity: int | None = None, **options: Any) -> MemoryCloud:
    """A cloud in memory that sells some offers."""
    made = MemoryCloud(clock, **options)
    for one in offers:
        made.sell(one, capacity)
    return made


__all__ = ["Bench", "Killed", "SpotUse", "cloud", "offer"]
