"""Mail by SMTP. Message-ID is made of the message's id, so a second copy is known for one; what is about one
subject refers to its first mail, so that readers see one conversation.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from service.notifications.channels.protocol import TIMEOUT, Parcel, Refused, Sent
from service.notifications.content import Content

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
SUBJECT = 200
"""Characters of a subject line."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail goes out. `security` is starttls, tls or none."""

    host: str
    port: int | None
    security: str
    username: str | None = None
    password: str | None = None


class Email:
    """Implements `Sender`."""

    def __init__(self, server: MailServer, sender: str, to: tuple[str, ...], *, clear: bool = False) -> None:
        """clear: the settings allow the host although nothing is encrypted."""
        self._server, self._sender, self._to, self._clear = server, sender, to, clear

    def send(self, parcel: Parcel) -> Sent | Refused:
        """One SMTP session. Some of several recipients refused is told in the receipt, and no failure."""
        server = self._server
        if server.security == "none" and not self._clear:
            return Refused(f"{server.host}: security none, and notifications.allow_hosts does not name it")
        handed_over = False
        try:
            with self._connected() as smtp:
                handed_over = True
                refused = smtp.send_message(self._mail(parcel), self._sender, list(self._to))
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            return Refused(f"SMTP {codes[0]}: no recipient was accepted", final=min(codes) >= 500)
        except smtplib.SMTPAuthenticationError as error:
            return Refused(f"SMTP {error.smtp_code}: user name or password refused")
        except smtplib.SMTPResponseException as error:
            return Refused(f"SMTP {error.smtp_code}", final=handed_over and error.smtp_code >= 500)
        except (smtplib.SMTPException, ssl.SSLError, OSError) as error:
            return Refused(f"no connection ({type(error).__name__})", uncertain=handed_over)
        first = (parcel.thread or {}).get("message_id") or _message_id(parcel)
        return Sent({"refused": sorted(refused)} if refused else {}, {"message_id": first})

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        port = server.port or _PORTS[server.security]
        context = ssl.create_default_context()
        if server.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(server.host, port, timeout=TIMEOUT, context=context)
        else:
            smtp = smtplib.SMTP(server.host, port, timeout=TIMEOUT)
        try:
            if server.security == "starttls":
                smtp.starttls(context=context)
            if server.username is not None and server.password is not None:
                smtp.login(server.username, server.password)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _mail(self, parcel: Parcel) -> EmailMessage:
        content = parcel.content
        mail = EmailMessage()
        mail["From"], mail["To"] = self._sender, ", ".join(self._to)
        mail["Date"] = format_datetime(content.created_at)
        mail["Message-ID"] = _message_id(parcel)
        mail["Auto-Submitted"] = "auto-generated"
        thread: Mapping[str, Any] = parcel.thread or {}
        if first := thread.get("message_id"):
            mail["In-Reply-To"] = mail["References"] = first
        mail["Subject"] = _one_line(f"[corral {content.severity}] {content.title}")
        mail.set_content(_body(content))
        return mail


def _message_id(parcel: Parcel) -> str:
    return f"<{parcel.content.id}@{parcel.deployment}.corral>"


def _one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:SUBJECT]


def _body(content: Content) -> str:
    parts = ["\n".join(content.lines)]
    if content.listed:
        parts.append("\n".join(content.listed))
    more = [f"More: {content.command}"]
    if content.link:
        more.append(content.link)
    parts += ["\n".join(more), f"-- \n{content.footer}"]
    return "\n\n".join(parts) + "\n"
