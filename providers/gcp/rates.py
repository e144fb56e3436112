"""How fast an account calls: well below the vendor's own limits, which everyone in the project shares.

Compute Engine counts calls by project, region and group, and refills by the minute: 1500 a minute for reads
and for writes of a region, 20 a second for bulk inserts; lists over all zones are a group of their own ("API
rate quotas"). Of the others no figure is published.
"""

from __future__ import annotations

from clock import Clock
from providers.rate_limit import Rate, RateLimiter
from providers.vocabulary import Scope

# By the SDK's name of the method.
RATES: dict[str, Rate] = {
    "insert_unary": Rate(8.0, 40),
    "bulk_insert_unary": Rate(5.0, 10),
    "delete_unary": Rate(8.0, 80),
    "aggregated_list": Rate(3.0, 30),
    "capacity": Rate(5.0, 10),
    "quotas": Rate(1.0, 20),
}
DEFAULT = Rate(12.0, 60)


def limiter(clock: Clock, account: str) -> RateLimiter:
    """The limiter of one account."""
    return RateLimiter(clock, RATES, DEFAULT, scope=Scope(provider="gcp", account=account))
