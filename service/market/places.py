"""Reading one place: what it says is stored, what cannot be read keeps the last word and its age."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from sqlmodel import Session

from providers.errors import ProviderError
from providers.interface import Provider
from service.context import Context
from service.market.credentials import note_credentials
from service.market.model import Poll
from service.market.polls import claim_polls, note_poll


class Reading(Protocol):
    """What every listing of a provider says of its own gaps."""

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What could not be read."""


R = TypeVar("R", bound=Reading)


def read_due(
    ctx: Context,
    kind: str,
    read: Callable[[Provider, str], R],
    store: Callable[[Session, Context, Poll, R], None],
) -> None:
    """Claim the places of a kind that are due and submit the reading of each to its pool."""
    for poll, token in claim_polls(ctx, kind):
        place = (poll.provider, poll.account, poll.region)
        ctx.submit(place, partial(_read, ctx, poll, token, read, store))


def _read(
    ctx: Context,
    poll: Poll,
    token: str,
    read: Callable[[Provider, str], R],
    store: Callable[[Session, Context, Poll, R], None],
) -> None:
    provider = ctx.provider(poll.provider, poll.account)
    if provider is None:
        return
    try:
        reading = read(provider, poll.region)
    except ProviderError as error:
        note_poll(ctx, poll.id, token, error=str(error))
        note_credentials(ctx, poll, error)
        return
    ctx.database.write(lambda session: store(session, ctx, poll, reading))
    problem = f"not read: {', '.join(reading.incomplete)}" if reading.incomplete else None
    note_poll(ctx, poll.id, token, error=problem)
    note_credentials(ctx, poll, None)
    ctx.wake("scheduler")
