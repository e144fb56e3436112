"""The settings as commands on the service's own machine read them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.cli.failure import UsageError

if TYPE_CHECKING:
    from service.settings import Settings

_SECRET_NAME = re.compile(r"secret|key|token|password|signature", re.IGNORECASE)
_REFERENCE = re.compile(r"^(env|file):")
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]+@")
MASK = "***"


def config_path(given: Path | None) -> Path | None:
    """The file named on the line or by CORRAL_CONFIG; None where neither is."""
    named = os.environ.get("CORRAL_CONFIG")
    return given or (Path(named) if named else None)


def load_settings(given: Path | None) -> Settings:
    """Read and check them; UsageError lists what is wrong, on one line."""
    from service.configuration import ConfigurationError, load

    try:
        return load(config_path(given), os.environ)
    except ConfigurationError as error:
        raise UsageError("; ".join(error.problems)) from error


def shown(settings: Settings) -> dict[str, Any]:
    """The settings as plain data that may be shown: what could be a secret is masked, references are not."""
    data: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    if data["database_url"]:
        data["database_url"] = _URL_PASSWORD.sub(rf"\1{MASK}@", data["database_url"])
    data["storage_options"] = _masked(data["storage_options"])
    data["stores"] = {url: _masked(options) for url, options in data["stores"].items()}
    return data


def _masked(options: dict[str, str]) -> dict[str, str]:
    return {
        name: MASK if _SECRET_NAME.search(name) and not _REFERENCE.match(text) else text
        for name, text in options.items()
    }
