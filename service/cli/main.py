"""The command `corral`: which commands there are, and how any of them ends.

Modules of commands import only the standard library and typer at the top, so that `corral --help` is quick;
everything else is imported by the command that needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from service.cli import (
    accounts,
    backtest,
    costs,
    daemon,
    database,
    following,
    jobs,
    market,
    nodes,
    notifications,
    orphans,
    projects,
    quota_requests,
    quotas,
    reservations,
    secrets,
    submission,
    tokens,
)
from service.cli.demo.command import demo
from service.cli.failure import CommandError, ExitCode
from service.cli.globals import Globals, hoist, split_command

app = typer.Typer(
    name="corral",
    help="Rounds up GPUs: asks several clouds, finds stock, and carries jobs over when it runs out.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

COMMANDS: dict[str, Callable[..., Any]] = {
    "init": daemon.init,
    "serve": daemon.serve,
    "sandbox": daemon.sandbox,
    "demo": demo,
    "check": accounts.check,
    "login": tokens.login,
    "plan": submission.plan,
    "run": submission.run,
    "ps": jobs.ps,
    "logs": following.logs,
    "events": following.events,
    "explain": jobs.explain,
    "cancel": jobs.cancel,
    "offers": market.offers,
    "instances": market.instances,
    "cost": costs.cost,
    "backtest": backtest.backtest,
}
GROUPS: dict[str, tuple[str, dict[str, Callable[..., Any]]]] = {
    "config": ("Look at the settings.", {"check": accounts.config_check, "show": accounts.config_show}),
    "instance": (
        "Orphans: instances that bear our tag and belong to no job.",
        {"end": orphans.end, "adopt": orphans.adopt, "confirm-sweep": orphans.confirm_sweep},
    ),
    "notifications": (
        "What people were told.",
        {
            "ls": notifications.ls,
            "show": notifications.show,
            "resend": notifications.resend,
            "channels": notifications.channels,
            "test": notifications.try_out,
        },
    ),
    "project": ("Projects.", {"ls": projects.ls, "create": projects.create}),
    "nodes": (
        "Machines of yours, paid by the month.",
        {"add": nodes.add, "ls": nodes.ls, "drain": nodes.drain, "resume": nodes.resume, "rm": nodes.rm},
    ),
    "reservations": ("Capacity that was paid for ahead.", {"ls": reservations.ls}),
    "quota": (
        "Limits of the accounts, and requests for more.",
        {
            "ls": quotas.ls,
            "history": quotas.history,
            "request": quota_requests.request,
            "requests": quota_requests.requests,
            "show": quota_requests.show,
            "approve": quota_requests.approve,
            "deny": quota_requests.deny,
            "withdraw": quota_requests.withdraw,
            "waits": quota_requests.waits,
        },
    ),
    "token": ("API tokens.", {"ls": tokens.ls, "create": tokens.create, "revoke": tokens.revoke}),
    "secret": ("Secrets of a project.", {"set": secrets.put, "ls": secrets.ls, "rm": secrets.rm}),
    "db": (
        "The service's database; run these where the service runs.",
        {
            "upgrade": database.upgrade,
            "check": database.check,
            "backup": database.backup,
            "copy": database.copy,
        },
    ),
}


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"corral {version('corral')}")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", help="The service's address [env: CORRAL_URL].", metavar="URL")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="Your API token [env: CORRAL_TOKEN].", metavar="TOKEN")
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    context.obj = replace(context.obj or Globals(), url=url, token=token)


def _register() -> None:
    for name, command in COMMANDS.items():
        app.command(name)(command)
    for name, (text, commands) in GROUPS.items():
        group = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
        for verb, command in commands.items():
            group.command(verb)(command)
        app.add_typer(group, name=name)


_register()


def main(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. One line on stderr says what went wrong."""
    try:
        words, command = split_command(list(arguments))
        result = app(hoist(words), prog_name="corral", standalone_mode=False, obj=Globals(command=command))
        sys.stdout.flush()
        if result == ExitCode.INTERRUPTED:  # what typer makes of KeyboardInterrupt
            return _fail("interrupted", ExitCode.INTERRUPTED)
        return result if isinstance(result, int) else ExitCode.OK
    except CommandError as error:
        return _fail(error.message, error.code)
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            return ExitCode.USAGE
        return _fail(error.format_message(), ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at exit
        return ExitCode.FAILED
    except Exception as error:
        if os.environ.get("CORRAL_DEBUG"):
            raise
        text = f"a fault of ours: {type(error).__name__}: {error}; CORRAL_DEBUG=1 shows where"
        return _fail(text, ExitCode.FAILED)


def _fail(text: str, code: ExitCode) -> int:
    print(f"corral: {' '.join(text.split())}", file=sys.stderr)
    return code


def run() -> NoReturn:
    """The console script."""
    sys.exit(main(sys.argv[1:]))
