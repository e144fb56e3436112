"""`corral check` and `corral config`: are the settings right, and do the clouds agree?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.arguments import ConfigFile, Json
from service.cli.failure import CommandError, ExitCode, UsageError

if TYPE_CHECKING:
    from clock import Clock
    from providers.config import AccountConfig


def check(config: ConfigFile = None, json: Json = False) -> None:
    """Ask the clouds whether our accounts are set up right.

    Credentials, permissions, regions, images and networks of each, with how to mend what is wrong; and
    whether public_url answers with a good certificate.

    Reads the settings of this machine and asks the clouds; nothing is created. Exit code 1 if some fail.
    """
    from clock import ScaledClock
    from service.cli.reachability import check_public_url
    from service.cli.settings_file import config_path, load_settings
    from service.cli.show import as_json, line, table

    settings = load_settings(config)
    clock = ScaledClock.parse(settings.clock)
    lines = check_public_url(settings, clock.now())
    lines += [found for account in settings.accounts for found in _check(account, clock)]
    if json:
        as_json(lines)
    else:
        rows = [
            (one["account"], "ok" if one["ok"] else "wrong", one["subject"], one["detail"], one["remedy"])
            for one in lines
        ]
        where = config_path(config) or "no file: give --config or CORRAL_CONFIG"
        empty = f"no accounts in the settings ({where}); `corral serve --sandbox` brings local clouds"
        table(("ACCOUNT", "", "WHAT", "SEEN", "HOW TO MEND IT"), rows, empty=empty)
        for text in summary(lines):
            line(text)
    wrong = sum(not one["ok"] for one in lines)
    if wrong:
        raise CommandError(f"check: {wrong} of {len(lines)} checks failed", ExitCode.FAILED)


def summary(lines: list[dict[str, Any]]) -> list[str]:
    """A line for each account: how many of its checks went well."""
    names = dict.fromkeys(one["account"] for one in lines)
    fine = {name: [one["ok"] for one in lines if one["account"] == name] for name in names}
    return [f"{name}: {sum(oks)} of {len(oks)} fine" for name, oks in fine.items()]


def _check(account: AccountConfig, clock: Clock) -> list[dict[str, Any]]:
    from service.accounts import make_provider
    from service.cli.show import waiting

    name = f"{account.provider}/{account.name}"
    try:
        with waiting(f"checking {name}"):
            provider = make_provider(account, clock)
            results = list(provider.check())
            provider.close()
    except Exception as error:  # one account that cannot even be set up leaves the others to be looked at
        detail = f"{type(error).__name__}: {error}"
        return [{"account": name, "subject": "set-up", "ok": False, "detail": detail, "remedy": ""}]
    return [
        {"account": name, "subject": r.subject, "ok": r.ok, "detail": r.detail, "remedy": r.remedy}
        for r in results
    ]


def config_check(
    file: Annotated[Path, typer.Argument(help="The settings' YAML file.", metavar="FILE")], json: Json = False
) -> None:
    """Say every problem of a settings file with its line, or that it can be used."""
    from service.cli.show import as_json
    from service.configuration import check as problems_of

    problems = problems_of(file)
    if json:
        as_json({"file": str(file), "problems": problems})
    else:
        for problem in problems[:-1]:
            typer.echo(f"corral: {problem}", err=True)
        if not problems:
            typer.echo(f"{file}: fine")
    if problems:
        raise UsageError(problems[-1])


def config_show(config: ConfigFile = None, json: Json = False) -> None:
    """Print the settings in force on this machine: file, environment, defaults. Secrets are masked."""
    from service.cli.settings_file import config_path, load_settings, shown
    from service.cli.show import as_json
    from service.configuration import digest

    settings = load_settings(config)
    if json:
        as_json({"hash": digest(settings), "settings": shown(settings)})
        return
    import yaml

    print(f"# file: {config_path(config) or 'none'}; hash {digest(settings)}")
    print(yaml.safe_dump(shown(settings), sort_keys=False), end="")
