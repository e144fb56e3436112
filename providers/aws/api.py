"""Every call to AWS goes through here: spaced out, counted by no one but the vendor, its errors translated.

`read` and `pages` try again after throttling and server errors; `write` sends once and only once, and is
told by its caller whether it creates instances.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from clock import Clock
from providers.aws.errors import from_exception
from providers.aws.session import Clients
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.rate_limit import Rate, RateLimiter
from providers.read_retries import ReadRetries
from providers.vocabulary import Scope

# EC2's own buckets per account, region and action: RunInstances 5 and 2/s, TerminateInstances 100 and 5/s,
# Describe* 100 and 20/s, other changes 50 and 5/s. [EC2 developer guide, "Request throttling"] Lists of
# Service Quotas 10 and 10/s, its other reads 5 and 5/s. [Service Quotas User Guide, "Quotas"] Ours leave half
# of that to others.
RATES = {
    "run_instances": Rate(1, burst=4),
    "terminate_instances": Rate(3, burst=20),
    "cancel_spot_instance_requests": Rate(3, burst=10),
    "delete_volume": Rate(2, burst=10),
    "create_placement_group": Rate(2, burst=10),
    "delete_placement_group": Rate(2, burst=10),
    "get_spot_placement_scores": Rate(1, burst=5),
    "get_products": Rate(5, burst=5),
    "list_service_quotas": Rate(5, burst=5),
    "list_aws_default_service_quotas": Rate(5, burst=5),
    "get_service_quota": Rate(2, burst=5),
    "get_aws_default_service_quota": Rate(2, burst=5),
    "list_requested_service_quota_change_history": Rate(2, burst=5),
    "request_service_quota_increase": Rate(1, burst=1),
}
DEFAULT_RATE = Rate(10, burst=20)

MAX_PAGES = 500
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRetrievalError"})


class Api:
    """The account's calls. Clients are made on first use; `close` lets go of them and of all who wait."""

    def __init__(
        self,
        config: AccountConfig,
        clock: Clock,
        *,
        environment: Mapping[str, str] = os.environ,
        chance: random.Random | None = None,
        machine_time: Callable[[], float] = time.time,
    ) -> None:
        self.account = Scope(provider=config.provider, account=config.name)
        self._clock = clock
        self._clients = Clients(config, environment)
        self._limiter = RateLimiter(clock, RATES, DEFAULT_RATE, scope=self.account)
        self._retries = ReadRetries(clock, chance)
        self._machine_time = machine_time

    def read(
        self, service: str, region: str, action: str, subject: Scope | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Call something that changes nothing, again where the fault is passing."""
        about = subject or self.subject(region)

        def attempt() -> dict[str, Any]:
            return self._send(service, region, action, about, parameters, launches=False)

        return self._retries(attempt)

    def pages(
        self,
        service: str,
        region: str,
        action: str,
        key: str,
        subject: Scope | None = None,
        **parameters: Any,
    ) -> Iterator[Any]:
        """The items under `key` of all pages of a read. An empty NextToken is the last page's, too."""
        token: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            page = self.read(service, region, action, subject, **parameters, **token)
            yield from page.get(key, ())
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        message = f"{action} in {region} did not end after {MAX_PAGES} pages"
        raise ProviderError(ErrorKind.UNKNOWN, message, scope=self.subject(region))

    def write(
        self,
        service: str,
        region: str,
        action: str,
        subject: Scope | None = None,
        *,
        launches: bool = False,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Send one request, once. launches: it creates instances, so an unclear end is ambiguous."""
        about = subject or self.subject(region)
        return self._send(service, region, action, about, parameters, launches=launches)

    def repeat(self, call: Callable[[], None]) -> None:
        """Try a change that is safe to repeat as often as a read."""
        self._retries(call)

    def subject(self, region: str) -> Scope:
        """What a call that is about no offer is about."""
        return Scope(provider=self.account.provider, account=self.account.account, region=region)

    def close(self) -> None:
        self._retries.close()
        self._limiter.close()
        self._clients.close()

    def _send(
        self,
        service: str,
        region: str,
        action: str,
        subject: Scope,
        parameters: Mapping[str, Any],
        *,
        launches: bool,
    ) -> dict[str, Any]:
        self._limiter.take(region, action)
        client = self._client(service, region, subject)
        try:
            return self._call(client, action, subject, parameters, launches)
        except ProviderError as error:
            if error.code not in EXPIRED:
                raise
        # Refused because the credentials ran out: nothing happened, and new ones may be at hand.
        self._clients.renew(client)
        client = self._client(service, region, subject)
        return self._call(client, action, subject, parameters, launches)

    def _client(self, service: str, region: str, subject: Scope) -> Any:
        from botocore.exceptions import BotoCoreError

        try:
            return self._clients.get(service, region)
        except BotoCoreError as error:
            raise from_exception(error, subject) from error

    def _call(
        self, client: Any, action: str, subject: Scope, parameters: Mapping[str, Any], launches: bool
    ) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            answer: dict[str, Any] = getattr(client, action)(**parameters)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            raise from_exception(error, subject, launches=launches, now=self._machine_time()) from error
        return answer
