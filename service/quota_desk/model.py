"""Table: requests for more quota."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlmodel import Field, Index

from providers.quotas import QuotaUnit
from providers.vocabulary import CapacityType
from service.db import Claimable, choice
from service.states import QuotaRequestState


class Origin(StrEnum):
    """How a request came to be. `console`: filed by hand in the vendor's console, and found there."""

    PERSON = "person"
    RULE = "rule"
    REFILE = "refile"
    CONSOLE = "console"


class QuotaRequest(Claimable, table=True):
    """That one limit of one account be raised. Amounts in `unit`; None is unknown.

    quota_id: the row of the quota. region: the quota's own, None over the whole account; place_region: where
    it was asked for, whose calls file and follow it. ask_id: one wish may need several limits raised.
    limit_before: the limit when it was asked for; target: what is wanted in the end, by re-filing. gpus: what
    the wish is for. provider_id: the vendor's id. sent_at: when it was, or was about to be, filed. filed_at,
    decided_at: by the vendor's clock where it tells. closed_at: since when the vendor calls it over without
    a word about the outcome. effective_at: when the limit was seen to be what was granted. seen_at: when a
    listing last showed it. found_decided: it was over when it was first seen. follows: the request that
    this one re-files; step counts from 0. reason: why it was withdrawn or has expired.
    """

    __tablename__ = "quota_request"
    __table_args__ = (
        Index("quota_request_by_quota", "quota_id", "state"),
        Index("quota_request_by_place", "provider", "account", "place_region"),
    )

    id: str = Field(primary_key=True, max_length=40)
    ask_id: str = Field(max_length=40, index=True)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str | None = Field(default=None, max_length=64)
    place_region: str = Field(max_length=64)
    quota_id: str = Field(max_length=255)
    key: str = Field(max_length=128)
    name: str = Field(max_length=255)
    unit: QuotaUnit | None = Field(default=None, sa_type=choice(QuotaUnit))
    state: QuotaRequestState = Field(sa_type=choice(QuotaRequestState), index=True)
    reason: str | None = Field(default=None, max_length=32)
    detail: str = ""
    error: str | None = None
    limit_before: float | None = None
    requested: float | None = None
    granted: float | None = None
    target: float | None = None
    gpu: str | None = Field(default=None, max_length=64)
    gpus: int | None = None
    instance_type: str | None = Field(default=None, max_length=64)
    instances: int | None = None
    capacity_type: CapacityType | None = Field(default=None, sa_type=choice(CapacityType))
    justification: str = ""
    contact: str | None = Field(default=None, max_length=255)
    origin: Origin = Field(sa_type=choice(Origin))
    rule: str | None = Field(default=None, max_length=40)
    requested_by: str | None = Field(default=None, max_length=64)
    decided_by: str | None = Field(default=None, max_length=64)
    project_id: str | None = Field(default=None, max_length=40)
    job_id: str | None = Field(default=None, max_length=40, index=True)
    provider_id: str | None = Field(default=None, max_length=255)
    created_at: datetime = Field(index=True)
    sent_at: datetime | None = None
    filed_at: datetime | None = None
    decided_at: datetime | None = None
    closed_at: datetime | None = None
    effective_at: datetime | None = None
    seen_at: datetime | None = None
    found_decided: bool = False
    failures: int = 0
    follows: str | None = Field(default=None, max_length=40)
    step: int = 0

    def told(self) -> dict[str, Any]:
        """What events say of it, as JSON values."""
        return {
            "provider": self.provider,
            "account": self.account,
            "region": self.region,
            "quota": self.key,
            "name": self.name,
            "unit": self.unit,
            "limit_before": self.limit_before,
            "requested": self.requested,
            "granted": self.granted,
            "gpu": self.gpu,
            "gpus": self.gpus,
            "capacity_type": self.capacity_type,
        }
