"""What the tests of the desk share: a cloud with a quota, a wish, and a look at the requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlmodel import col, select

from providers.memory import MemoryCloud
from providers.vocabulary import CapacityType
from service.quota_desk.ask import Asker, Wish, ask
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.settings import QuotaDesk
from service.settings import Settings
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer

SPOT = CapacityType.SPOT
NODE = 96
"""vCPUs of a node of eight H100."""
HOUR, DAY = 3600.0, 86400.0


def limited(clock: FakeClock, account: str, vcpus: int, price: float = 10.0) -> MemoryCloud:
    """A cloud with stock and a quota of so many vCPUs."""
    made = cloud(clock, offer(account, price))
    made.market.set_quota(f"{account}-1", "H100", SPOT, vcpus)
    return made


def wish(account: str = "aws", gpus: int = 8, **fields: Any) -> Wish:
    return Wish("memory", account, f"{account}-1", SPOT, **{"gpu": "H100", "gpus": gpus, **fields})


PERSON = Asker(Origin.PERSON, files=True, by="ann")


def file(bench: Bench, wanted: Wish | None = None, asker: Asker = PERSON) -> list[QuotaRequest]:
    """Ask, and let the desk do what is due at once."""
    written = bench.database.write(lambda session: ask(session, bench.ctx, wanted or wish(), asker))
    bench.ctx.wake("quota_desk")
    bench.turn()
    return [request(bench, row.id) for row in written]


def leap(bench: Bench, seconds: float) -> None:
    """Let time pass where no agent has to speak: the loops look every ten minutes, for days every hour."""
    step = 600.0 if seconds < DAY / 2 else HOUR
    end = bench.clock.now() + timedelta(seconds=seconds)
    while bench.clock.now() < end:
        bench.clock.advance(min(step, (end - bench.clock.now()).total_seconds()))
        bench.ctx.wake("quota_desk")
        bench.turn()


def requests(bench: Bench) -> list[QuotaRequest]:
    """Every request, oldest first."""
    statement = select(QuotaRequest).order_by(col(QuotaRequest.created_at), col(QuotaRequest.id))
    return bench.database.read(lambda session: list(session.exec(statement).all()))


def request(bench: Bench, request_id: str) -> QuotaRequest:
    return bench.database.read(lambda session: session.get_one(QuotaRequest, request_id))


def configure(bench: Bench, **desk: Any) -> None:
    """Settings of the desk; a restart keeps them."""
    settings = bench.settings.model_copy(update={"quota_desk": QuotaDesk.model_validate(desk)})
    bench.settings = Settings.model_validate(settings.model_dump(by_alias=True))
    bench.ctx.settings = bench.settings
