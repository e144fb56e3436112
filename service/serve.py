"""`corral serve`: everything in one process, from reading the keys to the last recorded call."""

from __future__ import annotations

from service.lean_structlog import structlog

# isort: split
import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import Any

from sqlmodel import Session, select

from clock import ScaledClock
from providers.interface import Provider
from service.accounts import NoAdapterError, make_provider
from service.api.app import create_app
from service.api.state import Api
from service.arenas import bound_arenas
from service.attempts.model import Attempt
from service.configuration import SECRET_KEY, Configuration, ConfigurationError
from service.context import Context
from service.db import Database, release_all
from service.http_server import Server, listen_on, metrics_server
from service.initialise import ensure_deployment, prepare_folder
from service.instances.model import Instance
from service.jobs.model import Job
from service.keys import key_file, load_keys, make_key_file
from service.loops import Loops
from service.market.model import Poll
from service.nodes.provider import StandingProvider
from service.notifications.channels.build import secrets_of
from service.notifications.model import Channel
from service.notifications.socket_mode import SocketListeners
from service.pools import Pools
from service.projects.model import Role, Token
from service.quota_desk.model import QuotaRequest
from service.references import UnresolvedError, resolved
from service.settings import Settings
from service.sole_process import sole_process
from service.storage import Store, storage_url
from service.structured_logging import configure
from service.upgrade import database_url, upgrade

log = structlog.get_logger(__name__)

CALLS_FINISH = 5.0
"""Real seconds that calls to clouds have, after SIGTERM, to come back and be recorded."""
_SECRET_WORDS = ("secret", "key", "token")


class CannotServeError(Exception):
    """The service cannot start; the message says why and what to do."""


def serve(
    configuration: Configuration,
    *,
    environment: Mapping[str, str] = os.environ,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. `on_ready` is told the address once requests are answered.

    CannotServeError, UnusableKeyError, SchemaError or OSError say why it cannot start.
    """
    bound_arenas()
    settings = configuration.settings
    prepare_folder(settings)
    if not environment.get(SECRET_KEY) and not key_file(settings).exists():
        make_key_file(settings)
    keys = load_keys(settings, environment)
    options = _storage_options(settings, environment)
    _check_notifications(settings, environment)
    configure(settings.log_level, _hidden(settings, environment))
    with ExitStack() as held:
        held.enter_context(sole_process(database_url(settings)))
        clock = ScaledClock.parse(settings.clock)
        database = Database(database_url(settings))
        held.callback(database.close)
        copy = upgrade(database.engine, clock.now())
        if copy is not None:
            log.info("database_upgraded", copy=str(copy))
        if database.is_sqlite:  # we hold its lock, so whoever held a claim is dead
            claimed = (Job, Attempt, Instance, Poll, Channel, QuotaRequest)
            database.write(lambda session: release_all(session, *claimed))
        deployment = database.write(lambda session: ensure_deployment(session, settings, clock.now()))
        listening = listen_on(settings.listen.host, settings.listen.port)
        held.callback(listening.close)
        pools = Pools(_sizes(settings))
        loops = Loops(clock)
        ctx = Context(
            clock=clock,
            chance=SystemRandom(),
            database=database,
            settings=settings,
            deployment_id=deployment.id,
            deployment_key=keys.deployment_key(deployment.id),
            service_url=settings.public_url or _address(settings, listening),
            store=Store(storage_url(settings), options),
            submit=pools,
            wake=loops.wake,
            owner=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            providers=_providers(settings, clock, {}),
            stopping=lambda: loops.stopping,
            service_ca=_certificate(settings),
            secret_keys=keys,
            environment=environment,
        )
        ctx.standing = StandingProvider(ctx)
        _Process(configuration, ctx, pools, loops, listening, on_ready).run()


class _Process:
    """What runs, and how it stops."""

    def __init__(
        self,
        configuration: Configuration,
        ctx: Context,
        pools: Pools,
        loops: Loops,
        listening: socket.socket,
        on_ready: Callable[[str], None] | None,
    ) -> None:
        self.configuration, self.ctx = configuration, ctx
        self.pools, self.loops, self.listening, self.on_ready = pools, loops, listening, on_ready
        self.app = create_app(ctx, configuration, loops)
        self.api: Api = self.app.state.api
        self.sockets = SocketListeners(ctx)
        self.stopped: asyncio.Future[None] | None = None

    def run(self) -> None:
        """Serve until told to stop, then stop in order: no new launches, streams end, calls are recorded."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._run())
        left = self.pools.close(CALLS_FINISH)
        self.api.close()
        for provider in self.ctx.providers.values():
            provider.close()
        log.info("stopped", calls_left=left)
        if left:  # a thread that hangs in a cloud's SDK would keep the process; its row says what to do
            self.ctx.database.close()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    async def _run(self) -> None:
        settings = self.ctx.settings
        server = Server(self.app, settings, self.listening)
        servers = [server]
        if settings.listen.metrics_port is not None:
            servers.append(metrics_server(self.api, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, servers)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        self.loops.start(self.ctx)
        self.sockets.follow()
        tasks = [asyncio.create_task(each.serve()) for each in servers]
        await server.ready.wait()
        self._announce(_address(settings, self.listening))
        await asyncio.gather(*tasks)
        if self.stopped is not None:
            await self.stopped

    def _announce(self, address: str) -> None:
        log.info("ready", address=address, config=self.configuration.hash, deployment=self.ctx.deployment_id)
        if not self.ctx.database.read(_has_admin):
            log.warning("no_token", hint="run `corral init` to make the first admin token")
        if self.on_ready is not None:
            self.on_ready(address)

    def _stop(self, servers: list[Server]) -> None:
        """On SIGTERM. A second one changes nothing."""
        if self.stopped is not None:
            return
        log.info("stopping")
        # Sets the flag at once and then waits, on a thread, for the steps that run.
        self.stopped = asyncio.get_running_loop().run_in_executor(None, self.loops.stop)
        self.api.closing.set()
        self.sockets.close()
        for server in servers:
            server.stop()

    def _reload(self) -> None:
        """On SIGHUP: the new settings, or the old ones and a line that says why."""
        try:
            changed = self.configuration.reload(self._apply)
        except ConfigurationError as error:
            log.error("reload_refused", problems=error.problems, config=self.configuration.hash)
            return
        except Exception as error:  # an SDK's, say, over a credentials file that is gone
            log.error(
                "reload_refused",
                problems=[f"{type(error).__name__}: {error}"],
                config=self.configuration.hash,
            )
            return
        log.info("reloaded", changed=changed, config=self.configuration.hash)
        self.sockets.follow()
        for name in ("market", "scheduler", "notifications"):
            self.ctx.wake(name)

    def _apply(self, settings: Settings) -> None:
        """Take over new settings. Everything that can fail comes first; nothing here ends an instance."""
        hidden = _hidden(settings, self.ctx.environment)
        providers = _providers(settings, self.ctx.clock, self.ctx.providers, self.ctx.settings)
        self.pools.resize(_sizes(settings))
        configure(settings.log_level, hidden)
        before = self.ctx.providers
        self.ctx.providers, self.ctx.settings = providers, settings
        for adapter in before.values():
            if adapter not in providers.values():
                adapter.close()


def _providers(
    settings: Settings,
    clock: Any,
    before: Mapping[tuple[str, str], Provider],
    old: Settings | None = None,
) -> dict[tuple[str, str], Provider]:
    """An adapter for each account; one whose account has not changed is kept, with its connections."""
    unchanged = [account for account in settings.accounts if old is not None and account in old.accounts]
    found: dict[tuple[str, str], Provider] = {}
    for account in settings.accounts:
        key = (account.provider, account.name)
        keep = account in unchanged and key in before
        try:
            found[key] = before[key] if keep else make_provider(account, clock)
        except NoAdapterError as error:
            raise CannotServeError(str(error)) from error
    return found


def _sizes(settings: Settings) -> dict[tuple[str, str], int]:
    return {(one.provider, one.name): one.max_concurrent_calls for one in settings.accounts}


def _address(settings: Settings, listening: socket.socket) -> str:
    """Where the service can be called from this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - the other way round
    scheme = "https" if settings.listen.tls_cert else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _certificate(settings: Settings) -> str | None:
    """The PEM that agents trust for the service, where its CA is private."""
    if settings.public_ca is None:
        return None
    return (Path(settings.data_dir) / settings.public_ca).read_text()


def _storage_options(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    try:
        for options in settings.stores.values():
            resolved(options, environment)
        return resolved(settings.storage_options, environment)
    except UnresolvedError as error:
        raise CannotServeError(f"storage: {error}") from error


def _check_notifications(settings: Settings, environment: Mapping[str, str]) -> None:
    try:
        secrets_of(settings.notifications, environment)
    except UnresolvedError as error:
        raise CannotServeError(str(error)) from error


def _hidden(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Values that must never be logged: keys, and options of stores that stand for a secret."""
    values = [text.strip() for text in environment.get(SECRET_KEY, "").split(",")]
    for options in (settings.storage_options, *settings.stores.values()):
        values += [
            value
            for name, value in resolved(options, environment).items()
            if options[name].startswith(("env:", "file:")) or any(word in name for word in _SECRET_WORDS)
        ]
    values += secrets_of(settings.notifications, environment)
    return [value for value in values if len(value) >= 8]


def _has_admin(session: Session) -> bool:
    return session.exec(select(Token.id).where(Token.role == Role.ADMIN).limit(1)).first() is not None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
