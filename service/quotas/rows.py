"""Quotas between rows and the vocabulary."""

from __future__ import annotations

from providers.quotas import Quota
from providers.vocabulary import Scope, scope_from
from service.quotas.model import QuotaRow


def quota_id(provider: str, account: str, quota: Quota) -> str:
    """The row of a quota; `*` stands for the whole account."""
    return f"{provider}/{account}/{quota.region or '*'}/{quota.key}"[:255]


def to_row(provider: str, account: str, quota: Quota) -> QuotaRow:
    """A reading as it is kept."""
    return QuotaRow(
        id=quota_id(provider, account, quota),
        provider=provider,
        account=account,
        region=quota.region,
        key=quota.key,
        name=quota.name,
        unit=quota.unit,
        limit=quota.limit,
        usage=quota.usage,
        gates=[_given(scope, provider, account) for scope in quota.gates],
        adjustable=quota.adjustable,
        read_at=quota.read_at,
    )


def to_quota(row: QuotaRow) -> Quota:
    """A row as the vocabulary has it."""
    return Quota(
        key=row.key,
        name=row.name,
        region=row.region,
        unit=row.unit,
        limit=row.limit,
        usage=row.usage,
        gates=tuple(scope_from(gate) for gate in row.gates),
        read_at=row.read_at,
        adjustable=row.adjustable,
    )


def _given(scope: Scope, provider: str, account: str) -> dict[str, str]:
    """A quota never speaks of another account."""
    return {**scope.given(), "provider": provider, "account": account}
