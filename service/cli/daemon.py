"""`corral init`, `serve` and `sandbox`: the commands that run where the service runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.arguments import ConfigFile, Json
from service.cli.failure import CommandError, UsageError

if TYPE_CHECKING:
    from clock import ScaledClock
    from service.settings import Settings

Scenario = Annotated[
    Path | None, typer.Option("--scenario", help="For the local clouds: what happens when.", metavar="FILE")
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", min=0.001, max=10000, help="For the local clouds: how many times as fast time runs."
    ),
]


def init(config: ConfigFile = None, json: Json = False) -> None:
    """Make data folder, key, database and the first admin token.

    Only what is missing is made, so it is safe to repeat. The token is printed once, and kept for this user's
    later commands unless there are other credentials.
    """
    from service.cli.settings_file import load_settings
    from service.cli.show import as_json, line, waiting
    from service.initialise import initialise

    settings = load_settings(config)
    with _one_line_errors(), waiting("initialising"):
        token = initialise(settings)
    kept = _keep(settings, token) if token else None
    if json:
        as_json({"data_dir": settings.data_dir, "token": token, "url": _address(settings), "kept_in": kept})
        return
    if token is None:
        line(f"{settings.data_dir}: was initialised before; nothing to do")
        return
    line(f"{settings.data_dir}: initialised")
    line(f"first admin token, shown only now: {token}")
    line(f"kept in {kept}" if kept else "not kept on this machine; use it with `corral login`")


def serve(
    config: ConfigFile = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Start local clouds too, and use those.")
    ] = False,
    scenario: Scenario = None,
    scale: Scale = None,
) -> None:
    """Run the service: API and loops in one process.

    SIGTERM ends it in good order within 10 s, SIGHUP reads the settings again.
    """
    from service.cli.settings_file import config_path, load_settings

    path = config_path(config)
    if not sandbox:
        if scenario is not None or scale is not None:
            raise UsageError("--scenario and --scale go with --sandbox")
        run_service(path, {})
        return
    from service.cli.local_clouds import start_clouds
    from service.cli.show import note, waiting

    folder = Path(load_settings(config).data_dir) / "sandbox"
    with waiting("starting the local clouds"):
        clouds, described = start_clouds(folder, _kept_clock(folder, scale), scenario=scenario)
    with clouds:
        note(f"local clouds: {', '.join(sorted(described.endpoints))}; clock {described.clock}")
        run_service(path, {"accounts": described.accounts, "clock": described.clock})


def sandbox(
    scenario: Scenario = None,
    root: Annotated[Path, typer.Option("--root", help="Where the instances' disks are kept.")] = Path(
        ".corral/sandbox"
    ),
    port_base: Annotated[
        int, typer.Option("--port-base", min=0, max=65530, help="The first of five ports; 0 takes free ones.")
    ] = 0,
    scale: Scale = None,
    leashed: Annotated[bool, typer.Option("--leashed", hidden=True)] = False,
) -> None:
    """Run local clouds: EC2, Compute Engine, Azure on loopback.

    Prints the settings that point a service at them. Instances are processes of this machine.
    """
    from service.cli.local_clouds import serve_clouds

    serve_clouds(clock_for(scale), root, scenario, port_base, leashed=leashed)


def clock_for(scale: float | None) -> ScaledClock:
    """The clock of --scale, from now on; else that of CORRAL_CLOCK; else real time."""
    import time

    from clock import ENVIRONMENT, ScaledClock

    if scale is not None:
        if ENVIRONMENT in os.environ:
            raise UsageError(f"give --scale or {ENVIRONMENT}, not both")
        return ScaledClock(time.time(), scale)
    try:
        return ScaledClock.from_environment(os.environ)
    except ValueError as error:
        raise UsageError(f"{ENVIRONMENT}: {error}") from error


def _kept_clock(folder: Path, scale: float | None) -> ScaledClock:
    """The clock that the data beside `folder` were made with, so that time does not go back after a restart;
    at first that of --scale. UsageError if --scale is another.
    """
    from clock import ScaledClock

    file = folder / "clock"
    if file.exists():
        kept = ScaledClock.parse(file.read_text().strip())
        if scale not in (None, kept.factor):
            raise UsageError(
                f"--scale {scale:g}: {folder} was begun with {kept.factor:g}; take another data_dir"
            )
        return kept
    made = clock_for(scale)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.write_text(f"{made}\n")
    return made


def run_service(
    path: Path | None, overrides: dict[str, Any], on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve until told to stop. `on_ready` is told the address once requests are answered."""
    gc.disable()  # importing makes much and frees nothing: looking for garbage is a tenth of the start

    def ready(address: str) -> None:
        gc.freeze()
        gc.enable()
        if on_ready is not None:
            on_ready(address)

    from service.configuration import Configuration, ConfigurationError
    from service.serve import CannotServeError
    from service.serve import serve as serve_until_stopped

    with _one_line_errors():
        try:
            configuration = Configuration(path, os.environ, overrides)
            serve_until_stopped(configuration, on_ready=ready)
        except ConfigurationError as error:
            raise UsageError("; ".join(error.problems)) from error
        except CannotServeError as error:
            raise CommandError(str(error)) from error


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What keeps a service from starting, without a traceback."""
    from sqlalchemy.exc import OperationalError

    from service.keys import UnusableKeyError
    from service.upgrade import SchemaError

    try:
        yield
    except (UnusableKeyError, SchemaError) as error:
        raise CommandError(str(error)) from error
    except OperationalError as error:
        raise CommandError(f"database: {str(error.orig).splitlines()[0]}") from error
    except OSError as error:
        raise CommandError(f"{error.filename or 'system'}: {error.strerror or error}") from error


def _address(settings: Settings) -> str:
    if settings.public_url:
        return settings.public_url
    scheme = "https" if settings.listen.tls_cert else "http"
    return f"{scheme}://{settings.listen.host}:{settings.listen.port}"


def _keep(settings: Settings, token: str) -> str | None:
    """Write the credentials file, unless it belongs to another service or cannot be written."""
    from service.cli.connection import Connection, load, save

    connection = Connection(_address(settings), token)
    try:
        kept = load(os.environ)
        if kept is not None and kept.url != connection.url:
            return None
        return str(save(connection, os.environ))
    except CommandError:
        return None
