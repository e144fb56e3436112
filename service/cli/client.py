"""The service over HTTP, for the command line: JSON in and out, every failure a CommandError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from service.cli.connection import Connection
from service.cli.failure import CommandError, ExitCode

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
UPLOAD_SECONDS = 600.0
PAGE = 100
_CHUNK = 1 << 20

Params = Mapping[str, str | float | bool | None]


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event."""

    kind: str
    data: str
    id: str | None


class Client:
    """One connection to the service. Use as a context manager."""

    def __init__(self, connection: Connection, *, transport: httpx.BaseTransport | None = None) -> None:
        import httpx

        from providers.config import is_loopback

        self._connection = connection
        headers = {"Accept": "application/json"}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        self._http = httpx.Client(
            base_url=connection.url,
            headers=headers,
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
            trust_env=not is_loopback(connection.url),  # a proxy is never asked for this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Any:
        """The answer's JSON."""
        return self._call("GET", path, params=_given(params))

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send JSON, return the answer's JSON (None if it is empty)."""
        return self._call("POST", path, json=body, params=_given(params), headers=headers)

    def put(self, path: str, body: Any, *, params: Params | None = None) -> Any:
        """Send JSON, return the answer's JSON."""
        return self._call("PUT", path, json=body, params=_given(params))

    def delete(self, path: str, params: Params | None = None) -> Any:
        """Return the answer's JSON."""
        return self._call("DELETE", path, params=_given(params))

    def pages(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Iterator[Any]:
        """Every item of a list, page by page, at most `limit`."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.get(path, {**(params or {}), "limit": size, "cursor": cursor})
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return
            left = None if left is None else left - size

    def exists(self, path: str, params: Params | None = None) -> bool:
        """HEAD: whether the service has it."""
        with self._translated():
            answer = self._http.head(path, params=_given(params))
        if answer.status_code == 404:
            return False
        if answer.is_error:
            raise failure_of(answer)
        return True

    def upload(self, path: str, file: Path, params: Params | None = None) -> Any:
        """PUT a file's bytes, read as they are sent."""
        content = _chunks(file)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        return self._call(
            "PUT", path, content=content, params=_given(params), headers=headers, timeout=UPLOAD_SECONDS
        )

    def download(self, path: str, params: Params | None = None) -> Iterator[bytes]:
        """The answer's bytes, as they come."""
        with self._streamed(path, params, {"Accept": "*/*"}) as answer:
            yield from answer.iter_bytes()

    def events(self, path: str, params: Params | None, last_id: str | None) -> Iterator[ServerEvent]:
        """Server-sent events as they come, from the one after `last_id` on. Comments are passed over."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        with self._streamed(path, params, headers) as answer:
            fields: dict[str, str] = {}
            for line in _lines(answer.iter_bytes()):
                if line:
                    name, _, value = line.partition(":")
                    value = value.removeprefix(" ")
                    fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
                    continue
                if "data" in fields:
                    yield ServerEvent(fields.get("event", "message"), fields["data"], fields.get("id"))
                fields = {}

    def _call(self, method: str, path: str, **options: Any) -> Any:
        with self._translated():
            answer = self._http.request(method, path, **options)
            if answer.is_error:
                raise failure_of(answer)
            if not answer.content:
                return None
            try:
                return answer.json()
            except ValueError as error:
                raise CommandError(f"{self._connection.url} answered, but not as Corral does") from error

    @contextmanager
    def _streamed(
        self, path: str, params: Params | None, headers: Mapping[str, str]
    ) -> Iterator[httpx.Response]:
        import httpx

        with self._translated():
            timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
            given = _given(params)
            with self._http.stream("GET", path, params=given, headers=headers, timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise failure_of(answer)
                yield answer

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import httpx

        url = self._connection.url
        try:
            yield
        except httpx.InvalidURL as error:
            raise CommandError(f"url {url}: {error}", ExitCode.USAGE) from error
        except httpx.TimeoutException as error:
            raise CommandError(f"{url} does not answer in time", ExitCode.UNREACHABLE) from error
        except httpx.ConnectError as error:
            hint = f"{url} is not reachable ({error}); is `corral serve` running there?"
            raise CommandError(hint, ExitCode.UNREACHABLE) from error
        except httpx.TransportError as error:
            raise CommandError(f"{url}: the connection broke ({error})", ExitCode.UNREACHABLE) from error


def failure_of(answer: httpx.Response) -> CommandError:
    """The one line that an answer of 4xx or 5xx means to a person."""
    status = answer.status_code
    text = _problem(answer)
    if status in (401, 403):
        hint = "; log in with `corral login`" if status == 401 else ""
        return CommandError(f"{text}{hint}", ExitCode.AUTH)
    if status in (502, 503, 504):
        return CommandError(f"the service is not ready: {text}", ExitCode.UNREACHABLE)
    if status >= 500:
        return CommandError(f"the service failed: {text}", ExitCode.FAILED)
    return CommandError(text, ExitCode.REFUSED)


def _problem(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        title = str(problem.get("title") or "")
        detail = str(problem.get("detail") or "")
        fields = problem.get("errors") or ()
        parts = [_field(field) for field in fields] or [detail or title]
        return "; ".join(part for part in parts if part) or f"HTTP {answer.status_code}"
    except (ValueError, AttributeError, TypeError, KeyError):
        return f"HTTP {answer.status_code} {answer.reason_phrase}".strip()


def _field(error: Mapping[str, Any]) -> str:
    allowed = error.get("allowed")
    if isinstance(allowed, list):
        allowed = ", ".join(str(value) for value in allowed)
    text = f"{error.get('field') or 'request'}: {error.get('problem') or ''}"
    return f"{text} (allowed: {allowed})" if allowed else text


def _given(params: Params | None) -> dict[str, str]:
    texts = {True: "true", False: "false"}
    return {
        name: texts[value] if isinstance(value, bool) else str(value)
        for name, value in (params or {}).items()
        if value is not None
    }


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Lines ended by a newline and nothing else: a text may well hold the other separators of Unicode."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            yield chunk
