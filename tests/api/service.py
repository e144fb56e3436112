"""The API over one database file: the real application, a clock moved by hand, no loop running."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from httpx2 import Response
from sqlmodel import Session, col, select
from starlette.testclient import TestClient

from clock import REAL
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey
from service.api.app import create_app
from service.attempts.model import Attempt, AttemptInstance, Charge
from service.configuration import Configuration
from service.context import Context
from service.db import Database
from service.identifiers import new_id
from service.instances.model import Instance
from service.jobs.model import Job
from service.keys import SecretKeys, parse_keys
from service.loops import Loops
from service.market.model import OfferRow
from service.market.offers import to_values
from service.nodes.provider import StandingProvider
from service.projects.model import Project, Role
from service.projects.tokens import new_token
from service.states import AttemptState, InstanceState, JobState
from service.storage import Store
from service.transitions import move_job
from service.upgrade import migrate
from tests.clocks import FakeClock

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
H100 = InstanceType("p5.48xlarge", "P", 192, 2048, Accelerator("H100", 8, 80))
L4 = InstanceType("g2-standard-8", "NVIDIA_L4", 8, 32, Accelerator("L4", 1, 24))
CPU = InstanceType("D8s_v5", "standardDSv5Family", 8, 32)
SPEC: Mapping[str, Any] = {"name": "train", "run": "python train.py", "resources": {"gpu": "H100:8"}}


@dataclass
class Service:
    """What a test holds. `woken` lists the loops that were woken."""

    ctx: Context
    client: TestClient
    clock: FakeClock
    configuration: Configuration
    admin: str
    woken: list[str] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def database(self) -> Database:
        return self.ctx.database

    def call(self, method: str, path: str, token: str | None = None, **options: Any) -> Response:
        """Send a request with a token, the admin's by default; `token=""` sends none."""
        text = self.admin if token is None else token
        headers = dict(options.pop("headers", {}))
        if text:
            headers["Authorization"] = f"Bearer {text}"
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, token: str | None = None, **options: Any) -> Response:
        return self.call("GET", path, token, **options)

    def post(self, path: str, body: Any = None, token: str | None = None, **options: Any) -> Response:
        return self.call("POST", path, token, json=body, **options)

    def submit(self, token: str | None = None, **changes: Any) -> dict[str, Any]:
        """Submit a job that is fine; its JSON."""
        answer = self.post("/v1/jobs", {**SPEC, **changes}, token)
        assert answer.status_code == 201, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def project(self, name: str) -> Project:
        """A project of that name, made if need be."""

        def make(session: Session) -> Project:
            row = session.exec(select(Project).where(Project.name == name)).first()
            if row is None:
                row = Project(id=new_id("prj", self.now, self.ctx.chance), name=name, created_at=self.now)
                session.add(row)
            return row

        return self.database.write(make)

    def token(self, role: Role = Role.MEMBER, project: str | None = None, **options: Any) -> str:
        """A token's text."""
        owner = self.project(project).id if project else None

        def make(session: Session) -> str:
            return new_token(
                session,
                name=f"{role}",
                role=role,
                project_id=owner,
                now=self.now,
                chance=self.ctx.chance,
                **options,
            )[1]

        return self.database.write(make)

    def offer(
        self,
        type_: InstanceType = H100,
        *,
        provider: str = "aws",
        region: str = "us-east-1",
        zone: str = "use1-az1",
        capacity_type: CapacityType = CapacityType.ON_DEMAND,
        price: float | None = 50.0,
    ) -> OfferKey:
        """Put an offer on the market."""
        key = OfferKey(provider, "main", region, zone, type_.name, capacity_type)
        offer = Offer(key, type_, price, self.now)
        self.database.write(lambda session: session.add(OfferRow(**to_values(offer, self.now))))
        return key

    def attempt(
        self,
        job_id: str,
        *,
        state: AttemptState = AttemptState.RUNNING,
        number: int = 1,
        price_micros: int = 36_000_000,
        hours: float | None = None,
    ) -> str:
        """Have the job tried: an attempt with one instance, billed for `hours` (None: still)."""
        now, chance = self.now, self.ctx.chance
        attempt_id, instance_id = new_id("a", now, chance), new_id("i", now, chance)
        place = ("aws", "main", "us-east-1", "use1-az1", "p5.48xlarge", CapacityType.SPOT)
        names = ("provider", "account", "region", "zone", "instance_type", "capacity_type")
        where: dict[str, Any] = dict(zip(names, place, strict=True))
        over = state is AttemptState.ENDED

        def make(session: Session) -> None:
            job = session.get_one(Job, job_id)
            session.add(
                Attempt(
                    id=attempt_id,
                    job_id=job_id,
                    number=number,
                    epoch=number,
                    state=state,
                    nodes=1,
                    price_micros=price_micros,
                    token=f"{chance.getrandbits(128):032x}",
                    planned_at=now,
                    running_at=now,
                    ended_at=now if over else None,
                    **where,
                )
            )
            session.add(
                Instance(
                    id=instance_id,
                    node=0,
                    token="t",
                    state=InstanceState.RUNNING,
                    planned_at=now,
                    **where,
                )
            )
            session.flush()
            session.add(AttemptInstance(attempt_id=attempt_id, rank=0, instance_id=instance_id))
            ends = None if hours is None else now + timedelta(hours=hours)
            session.add(
                Charge(
                    attempt_id=attempt_id,
                    instance_id=instance_id,
                    starts=now,
                    ends=ends,
                    job_id=job_id,
                    project_id=job.project_id,
                    price_micros=price_micros,
                )
            )
            job.attempts = number
            if job.state is JobState.QUEUED:
                move_job(session, job, JobState.STARTING, "an attempt was planned", now=now)
            if job.state is JobState.STARTING and state is AttemptState.RUNNING:
                move_job(session, job, JobState.RUNNING, "running", now=now)

        self.database.write(make)
        return attempt_id

    def finish(self, job_id: str, to: JobState = JobState.SUCCEEDED) -> None:
        """End a job that runs."""

        def move(session: Session) -> None:
            move_job(session, session.get_one(Job, job_id), to, str(to), now=self.now)
            for attempt in session.exec(select(Attempt).where(col(Attempt.job_id) == job_id)).all():
                attempt.ended_at = attempt.ended_at or self.now
                session.add(attempt)

        self.database.write(move)

    def job(self, job_id: str) -> Job:
        """The row."""
        return self.database.read(lambda session: session.get_one(Job, job_id))

    def count(self, model: Any) -> int:
        """How many rows a table has."""
        return len(self.database.read(lambda session: session.exec(select(model)).all()))


def start(
    folder: Path,
    url: str,
    *,
    environment: Mapping[str, str] | None = None,
    keys: SecretKeys | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Service:
    """The application over a database that has this version's schema."""
    configuration = Configuration(None, {"CORRAL_DATA_DIR": str(folder), **(environment or {})}, overrides)
    clock, woken = FakeClock(), list[str]()
    database = Database(url)
    ctx = Context(
        clock=clock,
        chance=Random(7),
        database=database,
        settings=configuration.settings,
        deployment_id="test-deployment",
        deployment_key=b"k" * 32,
        service_url="http://127.0.0.1:1",
        store=Store(f"file://{folder / 'store'}", {}),
        submit=lambda place, call: None,
        wake=woken.append,
        owner="test",
        secret_keys=keys or parse_keys([KEY], "test"),
    )
    ctx.standing = StandingProvider(ctx)
    app = create_app(ctx, configuration, Loops(REAL, {"none": lambda ctx: None}))
    client = TestClient(app, raise_server_exceptions=False)
    service = Service(ctx, client, clock, configuration, "", woken)
    service.project("default")
    service.admin = service.token(Role.ADMIN)
    return service


def template(folder: Path) -> Path:
    """A SQLite file with the schema, to be copied by each test."""
    path = folder / "template.db"
    database = Database(f"sqlite:///{path}")
    migrate(database.engine, "head")
    database.close()
    return path


def copied(made: Path, folder: Path) -> str:
    """A fresh database from the template; its address."""
    shutil.copy(made, folder / "corral.db")
    return f"sqlite:///{folder / 'corral.db'}"
