"""Calls to the API with our time-outs, errors and retries instead of the SDK's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from clock import Clock
from providers.errors import ErrorKind, ProviderError
from providers.gcp.errors import Where, of_exception
from providers.rate_limit import RateLimiter
from providers.read_retries import ReadRetries

T = TypeVar("T")

_MOST_PAGES = 200


class Calls:
    """How an account calls; `again` tries a read anew where that can help, `limits` spaces calls out.

    `read_timeout` and `write_timeout` are real seconds per HTTP exchange.

    The SDK's own retries are off (`retry=None`): its default is up to ten minutes on two error classes.
    """

    def __init__(self, clock: Clock, limits: RateLimiter, read_timeout: float, write_timeout: float) -> None:
        self.clock = clock
        self.limits = limits
        self.again = ReadRetries(clock)
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout

    def read(self, method: Callable[..., T], request: Any, where: Where) -> T:
        """A call without effect, tried again where that can help. Raises ProviderError."""
        return self.again(lambda: self._once(method, request, where, self._read_timeout))

    def write(self, method: Callable[..., T], request: Any, where: Where) -> T:
        """A call with effect, sent once. Raises ProviderError."""
        return self._once(method, request, where, self._write_timeout)

    def pages(self, method: Callable[..., Any], request: Any, where: Where) -> Iterator[Any]:
        """The pages of a list, each tried again by itself; an empty page with a token is not the last."""
        for _ in range(_MOST_PAGES):
            pager = self.read(method, request, where)
            page = next(iter(pager.pages))
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
        raise ProviderError(ErrorKind.UNKNOWN, f"a list of more than {_MOST_PAGES} pages")

    def _once(self, method: Callable[..., T], request: Any, where: Where, timeout: float) -> T:
        self.limits.take(where.region or "", method.__name__)
        try:
            return method(request=request, retry=None, timeout=timeout)
        except Exception as error:
            raise of_exception(error, where, self.clock.now()) from error
