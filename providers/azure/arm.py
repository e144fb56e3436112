"""Azure Resource Manager for one subscription: the SDK's client, told not to retry, register or wait.

Reads go through the client's public `send_request` and stay plain dicts: turning a page of 1,500 sizes into
the SDK's models takes seconds. Creates and deletes go through the SDK's own operations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from clock import Clock
from providers.azure.client import PUBLIC_CLOUD, make
from providers.azure.credentials import credential
from providers.azure.errors import Attempt, from_exception
from providers.azure.rates import buckets, limiter
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.read_retries import ReadRetries
from providers.vocabulary import Scope

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.rest import HttpResponse
    from azure.mgmt.compute import ComputeManagementClient

T = TypeVar("T")

Rows = Iterable[dict[str, Any]]

# The token has run out on the way; nothing was carried out.
_EXPIRED = frozenset({"expiredauthenticationtoken", "invalidauthenticationtoken"})

PAGES = 200  # a listing longer than this is a loop


class Arm:
    """One account's door to Resource Manager. Thread-safe; everything raised is a ProviderError."""

    def __init__(self, config: AccountConfig, clock: Clock) -> None:
        self.account = config.name
        self.subscription = f"/subscriptions/{config.subscription}"
        self.group_name = config.resource_group or ""
        self.group = f"{self.subscription}/resourceGroups/{self.group_name}"
        self._config = config
        self._retries = ReadRetries(clock)
        self._limiter = limiter(clock, config.name)
        self._base_url = (config.endpoint or PUBLIC_CLOUD).rstrip("/")
        self._lock = threading.Lock()
        self._decoding = threading.Lock()
        self._made: ComputeManagementClient | None = None
        self._key: TokenCredential | None = None

    def vm_path(self, name: str) -> str:
        """The path of a virtual machine of the account's resource group."""
        return f"{self.group}/providers/Microsoft.Compute/virtualMachines/{name}"

    def get(self, path: str, version: str, *, region: str | None = None, **query: str) -> dict[str, Any]:
        """One resource. `query` keys that OData writes with `$` end in `_`: `expand_="instanceView"`.
        region: where the resource is, if the path does not say it; calls are counted by region.
        """
        return self._read(lambda: self._send("GET", path, _query(version, query), region=region))

    def pages(self, path: str, version: str, **query: str) -> list[dict[str, Any]]:
        """The items of all pages of a listing, or an error: never a part of them."""
        return list(self._items(path, _query(version, query)))

    def reduced(
        self, path: str, version: str, keep: Callable[[Rows], Mapping[str, T]], **query: str
    ) -> dict[str, T]:
        """What `keep` makes of each page of a listing, together, or an error. A page of sizes is twenty MB
        once it is decoded and all regions are read at once: no two pages are decoded at the same time.
        """
        found: dict[str, T] = {}
        for kept in self._each_page(path, _query(version, query), keep):
            found.update(kept)
        return found

    def look_up(self, path: str, version: str, body: dict[str, Any]) -> dict[str, Any]:
        """A question asked by POST, which changes nothing and so may be asked again."""
        return self._read(lambda: self._send("POST", path, _query(version, {}), body))

    def operation(self, url: str) -> dict[str, Any] | None:
        """What an asynchronous operation says of itself; None where its address is not Resource Manager's
        or it is no longer known.
        """
        if not self._ours(url):
            return None
        try:
            return self._read(lambda: self._send("GET", url, {}))
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    def put(
        self, path: str, version: str, body: dict[str, Any], *, region: str | None = None
    ) -> tuple[dict[str, Any], str | None]:
        """Create or change something that is no virtual machine, once. Returns the answer and where to ask
        after it, if Azure works on it. ProviderError is ambiguous where it may have been carried out.
        """
        from azure.core.rest import HttpRequest

        def send() -> tuple[dict[str, Any], str | None]:
            self._take("PUT", path, region)
            request = HttpRequest("PUT", path, params=_query(version, {}), json=body)
            response: HttpResponse = self._client().send_request(request, retry_total=0)
            response.raise_for_status()
            content: dict[str, Any] = response.json() if response.content else {}
            return content, response.headers.get("Location")

        return self._guard(send, Attempt(self.account, region, creating=True))

    def create_vm(
        self, name: str, body: dict[str, Any], attempt: Attempt
    ) -> tuple[dict[str, Any], str | None]:
        """Send a create-only PUT, once. Returns the accepted resource and the operation's URL."""
        from azure.core import MatchConditions
        from azure.mgmt.compute.models import VirtualMachine

        answers = []

        def seen(response: Any) -> None:
            answers.append(response.http_response)

        def send() -> tuple[dict[str, Any], str | None]:
            self._take("PUT", self.vm_path(name), attempt.region)
            self._client().virtual_machines.begin_create_or_update(
                self.group_name,
                name,
                VirtualMachine(body),
                etag="*",
                match_condition=MatchConditions.IfMissing,
                polling=False,
                retry_total=0,
                raw_response_hook=seen,
            )
            return answers[-1].json(), answers[-1].headers.get("Azure-AsyncOperation")

        return self._guard(send, attempt)

    def delete_vm(self, name: str, region: str | None = None) -> bool:
        """Ask for a forced deletion, once; True if there was a virtual machine to delete."""
        status: list[int] = []

        def seen(response: Any) -> None:
            status.append(response.http_response.status_code)

        self._take("DELETE", self.vm_path(name), region)
        self._guard(
            lambda: self._client().virtual_machines.begin_delete(
                self.group_name,
                name,
                force_deletion=True,
                polling=False,
                retry_total=0,
                raw_response_hook=seen,
            ),
            self._nothing(),
        )
        return status[-1:] != [204]

    def delete(self, path: str, version: str) -> None:
        """Delete a resource that is not a virtual machine, once; one that does not exist counts as done."""
        try:
            self._guard(lambda: self._send("DELETE", path, _query(version, {})), self._nothing())
        except ProviderError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise

    def token(self) -> None:
        """Ask for a token, to learn whether the credential works."""
        from azure.core.exceptions import AzureError

        try:
            self._credential().get_token(f"{PUBLIC_CLOUD}/.default")
        except AzureError as error:
            raise from_exception(error, self._nothing()) from error

    def close(self) -> None:
        """Let connections go, and nobody wait for another try; the next call opens new ones."""
        self._retries.close()
        self._limiter.close()
        with self._lock:
            made, key, self._made, self._key = self._made, self._key, None, None
        for one in (made, key):
            if one is not None and hasattr(one, "close"):
                one.close()

    def _nothing(self) -> Attempt:
        return Attempt(self.account)

    def _items(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        for items in self._each_page(path, query, list):
            yield from items

    def _each_page(self, path: str, query: dict[str, str], keep: Callable[[Rows], T]) -> Iterator[T]:
        """What is kept of each page."""
        address: str | None = path
        for _ in range(PAGES):
            if address is None:
                return
            kept, address = self._page(address, query, keep)
            query = {}
            yield kept
            if address is not None and not self._ours(address):
                break
        if address is not None:
            raise ProviderError(ErrorKind.UNKNOWN, f"listing {path}: the pages do not end", code="Paging")

    def _page(self, address: str, query: dict[str, str], keep: Callable[[Rows], T]) -> tuple[T, str | None]:
        """What is kept of one page, and where the next one is."""

        def ask() -> tuple[T, str | None]:
            content = self._fetch("GET", address, query)
            with self._decoding:
                return _kept(content, keep)

        return self._read(ask)

    def _ours(self, url: str) -> bool:
        """A token goes to Resource Manager only, whatever an answer or a database row says."""
        there, home = urlsplit(url), urlsplit(self._base_url)
        return (there.scheme, there.netloc) == (home.scheme, home.netloc)

    def _take(self, method: str, url: str, region: str | None = None) -> None:
        """Wait until a call may be sent. ProviderError (throttled) if that would take too long."""
        for place, bucket in buckets(method, url, region):
            self._limiter.take(place, bucket)

    def _send(
        self,
        method: str,
        url: str,
        query: dict[str, str],
        body: dict[str, Any] | None = None,
        *,
        region: str | None = None,
    ) -> dict[str, Any]:
        return _object(self._fetch(method, url, query, body, region=region))

    def _fetch(
        self,
        method: str,
        url: str,
        query: dict[str, str],
        body: dict[str, Any] | None = None,
        *,
        region: str | None = None,
    ) -> bytes:
        from azure.core.rest import HttpRequest

        self._take(method, url, region)
        request = HttpRequest(method, url, params=query, json=body)
        # Asked for as a stream, since the SDK's chain would decode what is not, for nobody.
        response: HttpResponse = self._client().send_request(request, stream=True, retry_total=0)
        content: bytes = response.read()
        response.raise_for_status()
        return content

    def _read(self, call: Callable[[], T]) -> T:
        return self._retries(lambda: self._guard(call, self._nothing()))

    def _guard(self, call: Callable[[], T], attempt: Attempt) -> T:
        """The call's answer, with a new token if the first has run out meanwhile; errors as ProviderError."""
        try:
            return self._once(call, attempt)
        except ProviderError as error:
            if error.kind is not ErrorKind.AUTH or error.code.lower() not in _EXPIRED:
                raise
        with self._lock:
            self._made = self._key = None  # others may be using them: they are let go, not closed
        return self._once(call, attempt)

    def _once(self, call: Callable[[], T], attempt: Attempt) -> T:
        from azure.core.exceptions import AzureError

        try:
            return call()
        except AzureError as error:
            raise from_exception(error, attempt) from error
        except ValueError as error:
            raise ProviderError(
                ErrorKind.TRANSIENT,
                f"an answer that is no JSON: {error}",
                code="BadAnswer",
                scope=Scope("azure", self.account, attempt.region),
                ambiguous=attempt.creating,
            ) from error

    def _credential(self) -> TokenCredential:
        with self._lock:
            if self._key is None:
                self._key = credential(self._config)
            return self._key

    def _client(self) -> ComputeManagementClient:
        key = self._credential()
        with self._lock:
            if self._made is None:
                self._made = make(self._config, self._base_url, key)
            return self._made


def same_place(one: str, other: str) -> bool:
    """`East US` and `eastus` are one region."""
    return one.replace(" ", "").lower() == other.replace(" ", "").lower()


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object of an answer, which may be empty."""
    import orjson

    found: dict[str, Any] = orjson.loads(content) if content else {}
    return found


def _kept(content: bytes, keep: Callable[[Rows], T]) -> tuple[T, str | None]:
    """What is kept of a page, and where the next one is; the page itself is let go on return."""
    page = _object(content)
    return keep(page.get("value") or ()), page.get("nextLink") or None


def _query(version: str, query: Mapping[str, str]) -> dict[str, str]:
    odata = {f"${name[:-1]}" if name.endswith("_") else name: value for name, value in query.items()}
    return {"api-version": version, **odata}
