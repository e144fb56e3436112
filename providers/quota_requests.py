"""Asking a cloud for more quota, and what it says of the asking."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ReviewState(StrEnum):
    """What a cloud says of a request for more.

    `closed` is over without a word about the outcome (EC2's CASE_CLOSED): only the limit itself can tell.
    """

    FILED = "filed"
    IN_REVIEW = "in_review"
    APPROVED = "approved"
    PARTLY_GRANTED = "partly_granted"
    DENIED = "denied"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QuotaIncrease:
    """What is asked for: that the quota `key` of a region (None: of the whole account) be `limit`, a new
    limit and no difference, in the quota's own unit. `contact` is an e-mail address (GCE requires one).
    """

    key: str
    region: str | None
    limit: float
    justification: str
    contact: str | None = None


@dataclass(frozen=True, slots=True)
class CloudQuotaRequest:
    """A request for more quota, as its cloud shows it; ours and those filed by hand alike.

    provider_id: the vendor's id. requested, granted: limits in the quota's unit; None is unknown. `granted`
    is what the vendor says that it grants: whether it is in effect, only the limit itself shows.
    """

    provider_id: str
    key: str
    region: str | None
    state: ReviewState
    requested: float | None
    granted: float | None = None
    filed_at: datetime | None = None
    changed_at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class QuotaRequestListing:
    """The requests of a region, account-wide ones included. `incomplete` names what could not be read."""

    requests: tuple[CloudQuotaRequest, ...]
    incomplete: tuple[str, ...] = ()
