"""A Slack of our own on loopback that keeps Slack's rules: what it would refuse is refused here.

Rules: docs.slack.dev/reference/block-kit/blocks (numbers and lengths), .../methods/chat.postMessage,
.../messaging/sending-messages-using-incoming-webhooks, .../apis/web-api/rate-limits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT_TOKEN = "xoxb-canary-7f3a9c"
CHANNEL = "C0123456"
HOOK = "/services/T000/B000/canary-hook-5d1e"

Fault = Callable[["Slack", str, dict[str, Any]], "Answer | None"]


@dataclass(frozen=True)
class Answer:
    """`after`: the call takes effect, then this is said instead; None of a status drops the connection."""

    status: int | None
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False


def rate_limited(seconds: int) -> Answer:
    return Answer(429, "ratelimited", {"Retry-After": str(seconds)})


@dataclass
class Slack:
    """What is there, in order; `posted`: as it first was. `fault` may answer a call in Slack's place."""

    url: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    edits: list[dict[str, Any]] = field(default_factory=list)
    posted: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    fault: Fault | None = None
    on_post: Callable[[], None] | None = None
    app_token: str = ""
    socket_url: str = ""

    @property
    def hook(self) -> str:
        return f"{self.url}{HOOK}"

    @property
    def api(self) -> str:
        return f"{self.url}/api/"

    def roots(self) -> list[dict[str, Any]]:
        return [one for one in self.messages if "thread_ts" not in one]

    def replies(self, ts: str) -> list[dict[str, Any]]:
        return [one for one in self.messages if one.get("thread_ts") == ts]

    def texts(self) -> list[str]:
        return [text_of(one) for one in self.posted]


def text_of(message: dict[str, Any]) -> str:
    """All that a reader sees of a message."""
    found = [message.get("text", "")]
    for block in message.get("blocks") or ():
        for part in (block.get("text"), *block.get("elements", ())):
            if isinstance(part, dict):
                inner = part.get("text")
                found.append(inner if isinstance(inner, str) else str((inner or {}).get("text", "")))
    return "\n".join(found)


def problem(message: dict[str, Any]) -> str | None:
    """Why Slack would not take a message; None if it would."""
    blocks = message.get("blocks") or []
    if not blocks and not message.get("text"):
        return "no_text"
    if len(message.get("text", "")) > 40_000:
        return "msg_too_long"
    if len(blocks) > 50:
        return "invalid_blocks"
    if len(json.dumps(blocks)) > 13_000 + 100 * len(blocks):
        return "msg_blocks_too_long"
    return next((fault for block in blocks if (fault := _block_problem(block))), None)


_TEXTS = {"section": 3000, "header": 150}


def _block_problem(block: dict[str, Any]) -> str | None:
    kind, text = block.get("type"), block.get("text")
    if kind in _TEXTS:
        if not isinstance(text, dict) or not 1 <= len(text.get("text", "")) <= _TEXTS[kind]:
            return "invalid_blocks"
        if kind == "header" and text.get("type") != "plain_text":
            return "invalid_blocks"
        return None
    elements = block.get("elements") or []
    if kind == "context":
        wrong = not 1 <= len(elements) <= 10 or any(not 1 <= len(e.get("text", "")) <= 3000 for e in elements)
        return "invalid_blocks" if wrong else None
    if kind == "actions":
        wrong = not 1 <= len(elements) <= 25 or any(_button_is_wrong(e) for e in elements)
        return "invalid_blocks" if wrong else None
    return "invalid_blocks"


def _button_is_wrong(button: dict[str, Any]) -> bool:
    return (
        len(button.get("action_id", "")) > 255
        or len(button.get("value", "")) > 2000
        or len(button["text"]["text"]) > 75
    )


class _Handler(BaseHTTPRequestHandler):
    slack: Slack
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = _said(raw, self.headers.get("Content-Type") or "")
        said |= {name: values[0] for name, values in parse_qs(parts.query).items()}
        call = parts.path.removeprefix("/api/")
        slack = self.slack
        slack.calls.append(call)
        if call == "apps.connections.open":
            good = self.headers.get("Authorization") == f"Bearer {slack.app_token}"
            said = {"ok": good} | ({"url": slack.socket_url} if good else {"error": "invalid_auth"})
            self._answer(Answer(200, json.dumps(said)))
            return
        if parts.path.startswith("/api/") and self.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            self._answer(Answer(200, json.dumps({"ok": False, "error": "invalid_auth"})))
            return
        fault = slack.fault(slack, call, said) if slack.fault else None
        if fault is not None and not fault.after:
            self._answer(fault)
            return
        answer = _webhook(slack, said) if parts.path == HOOK else _api(slack, call, said)
        if slack.on_post is not None and call in ("chat.postMessage", HOOK):
            slack.on_post()
        self._answer(fault or answer)

    def _answer(self, answer: Answer) -> None:
        if answer.status is None:
            self.close_connection = True
            return
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json" if body[:1] == b"{" else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _said(raw: bytes, kind: str) -> dict[str, Any]:
    if "json" in kind:
        said: dict[str, Any] = json.loads(raw)
        return said
    return {name: values[0] for name, values in parse_qs(raw.decode()).items()}


def _webhook(slack: Slack, said: dict[str, Any]) -> Answer:
    wrong = problem(said)
    if wrong:
        slack.refused.append(wrong)
        return Answer(400, wrong)
    slack.messages.append(said | {"ts": _next_ts(slack)})
    slack.posted.append(said)
    return Answer(200, "ok")


def _next_ts(slack: Slack) -> str:
    return f"{1_772_366_400 + len(slack.messages)}.000100"


def _api(slack: Slack, call: str, said: dict[str, Any]) -> Answer:
    method = {
        "chat.postMessage": _post,
        "chat.update": _update,
        "conversations.history": _history,
        "conversations.replies": _replies,
    }.get(call)
    if method is None:
        return Answer(200, json.dumps({"ok": False, "error": "unknown_method"}))
    answer = {"ok": True} | method(slack, said)
    if not answer["ok"]:
        slack.refused.append(answer["error"])
    return Answer(200, json.dumps(answer))


def _post(slack: Slack, said: dict[str, Any]) -> dict[str, Any]:
    if said.get("channel") != CHANNEL:
        return {"ok": False, "error": "channel_not_found"}
    if wrong := problem(said):
        return {"ok": False, "error": wrong}
    ts = _next_ts(slack)
    slack.messages.append(said | {"ts": ts})
    slack.posted.append(said)
    return {"ts": ts, "channel": CHANNEL}


def _update(slack: Slack, said: dict[str, Any]) -> dict[str, Any]:
    found = next((one for one in slack.messages if one["ts"] == said.get("ts")), None)
    if found is None:
        return {"ok": False, "error": "message_not_found"}
    if wrong := problem(said):
        return {"ok": False, "error": wrong}
    found.update({name: value for name, value in said.items() if name in ("text", "blocks", "metadata")})
    slack.edits.append(said)
    return {"ts": found["ts"], "channel": CHANNEL}


def _history(slack: Slack, said: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(reversed(slack.roots()))}


def _replies(slack: Slack, said: dict[str, Any]) -> dict[str, Any]:
    root = [one for one in slack.messages if one["ts"] == said["ts"]]
    return {"messages": root + slack.replies(said["ts"])}


@contextmanager
def slack_server() -> Iterator[Slack]:
    """A Slack until the block ends."""
    slack = Slack()
    handler = type("Handler", (_Handler,), {"slack": slack})
    handler.do_GET = handler.do_POST  # type: ignore[attr-defined]
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    slack.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield slack
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
