"""From the settings to a channel that can send. References are followed each time, so that what they lead to
may be renewed while the service runs. What a kind of channel needs is imported with the first of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from clock import Clock
from providers.config import is_loopback
from service.notifications.channels.protocol import Sender
from service.notifications.settings import ChannelConfig, Notifications
from service.references import resolved


def sender(
    config: ChannelConfig, settings: Notifications, environment: Mapping[str, str], clock: Clock
) -> Sender:
    """The channel; UnresolvedError names a reference that leads nowhere."""
    secrets = resolved(config.references(), environment)
    allowed = frozenset(settings.allow_hosts)
    if config.type == "slack_webhook":
        from service.notifications.channels.slack_webhook import SlackWebhook

        return SlackWebhook(secrets["url"], allowed=allowed)
    if config.type == "slack_bot":
        from service.notifications.channels.slack_bot import SlackBot

        return SlackBot(
            secrets["token"],
            config.channel or "",
            config.api_url,
            buttons=bool(config.approvers),
            allowed=allowed,
        )
    if config.type == "webhook":
        from service.notifications.channels.webhook import Webhook

        return Webhook(secrets["url"], secrets["secret"], clock, allowed=allowed)
    from service.notifications.channels.email import Email, MailServer

    host = config.host or ""
    server = MailServer(host, config.port, config.security, config.username, secrets.get("password"))
    return Email(
        server,
        config.sender or "",
        config.to,
        clear=host in allowed or is_loopback(f"smtp://{host}"),
    )


def secrets_of(settings: Notifications, environment: Mapping[str, str]) -> list[str]:
    """Every secret that the settings refer to, to be kept out of logs; UnresolvedError names the channel and
    the setting whose reference leads nowhere.
    """
    named = {
        f"notifications.channels {channel.name}.{name}": text
        for channel in settings.channels
        for name, text in channel.references().items()
    }
    return list(resolved(named, environment).values())
