"""Clicks by Socket Mode: we call Slack and keep the connection, for a service that Slack cannot reach.

docs.slack.dev/apis/events-api/using-socket-mode. One connection per app-level token.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import structlog
from sqlmodel import Session

from service.context import Context
from service.notifications.asks import NOT_KEPT, answer, decide, read_click
from service.notifications.channels.protocol import TIMEOUT
from service.notifications.settings import ChannelConfig
from service.references import UnresolvedError, resolved

if TYPE_CHECKING:
    from slack_sdk.socket_mode import SocketModeClient

log = structlog.get_logger(__name__)

FIRST_WAIT = 2.0
LONGEST_WAIT = 300.0
"""Seconds (real) between two tries to connect."""


class SocketListeners:
    """The connections that the settings want; `follow` brings them to that, `close` ends them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._listeners: dict[tuple[str, str], _Listener] = {}

    def follow(self) -> None:
        """Open what is new, close what is gone. Returns at once."""
        wanted = {
            (channel.app_token, channel.api_url)
            for channel in self._ctx.settings.notifications.channels
            if channel.app_token is not None
        }
        for key in set(self._listeners) - wanted:
            self._listeners.pop(key).close()
        for key in wanted - set(self._listeners):
            self._listeners[key] = _Listener(self._ctx, *key)
            self._listeners[key].start()

    def close(self) -> None:
        """Close them all."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()


class _Listener:
    """One connection, opened by a thread of its own; the SDK opens it again when it is lost."""

    def __init__(self, ctx: Context, app_token: str, api_url: str) -> None:
        self._ctx, self._app_token, self._api_url = ctx, app_token, api_url
        self._closed = threading.Event()
        self._client: SocketModeClient | None = None
        self._thread = threading.Thread(target=self._connect, name="slack-socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        client = self._client
        if client is not None:
            try:
                client.close()
            except Exception as error:  # whatever a half-open connection raises
                log.info("socket_mode_not_closed", error=type(error).__name__)

    def _connect(self) -> None:
        wait = FIRST_WAIT
        while not self._closed.is_set():
            problem = self._try()
            if problem is None:
                return
            log.warning("socket_mode_fails", reason=problem, again_in=wait)
            self._closed.wait(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _try(self) -> str | None:
        """Connect; what is wrong, or None."""
        from slack_sdk.errors import SlackApiError
        from slack_sdk.socket_mode import SocketModeClient
        from slack_sdk.web import WebClient

        from service.notifications.channels.slack_api import SILENT, is_allowed

        if not is_allowed(self._api_url, self._ctx.settings.notifications.allow_hosts):
            return "api_url is not one of https://slack.com"
        try:
            token = resolved({"app_token": self._app_token}, self._ctx.environment)["app_token"]
            web = WebClient(base_url=self._api_url, timeout=int(TIMEOUT), retry_handlers=[], logger=SILENT)
            client = SocketModeClient(token, logger=SILENT, web_client=web, concurrency=2)
            client.socket_mode_request_listeners.append(self._heard)
            self._client = client
            client.connect()
        except UnresolvedError as error:
            return str(error)
        except SlackApiError as error:
            return f"Slack: {error.response.get('error')}"
        except Exception as error:  # urllib's and the socket's, of many kinds
            return f"no connection ({type(error).__name__})"
        return None

    def _heard(self, client: Any, request: Any) -> None:
        """Acknowledge at once, then decide, then tell the one who clicked."""
        from slack_sdk.socket_mode.response import SocketModeResponse

        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        click = read_click(request.payload) if request.type == "interactive" else None
        if click is None:
            return
        settings = self._ctx.settings.notifications
        channels: tuple[ChannelConfig, ...] = tuple(
            channel for channel in settings.channels if channel.app_token == self._app_token
        )

        def write(session: Session) -> str:
            return decide(session, self._ctx, click, channels)

        try:
            text = self._ctx.database.write(write)
        except Exception:
            log.exception("click_failed", request=click.request_id)
            text = NOT_KEPT
        self._ctx.wake("quota_desk")
        answer(click, text, frozenset(settings.allow_hosts))
