"""Options that several commands share, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The settings' YAML file [env: CORRAL_CONFIG].", metavar="FILE"),
]
Project = Annotated[
    str | None,
    typer.Option("--project", "-p", envvar="CORRAL_PROJECT", show_envvar=True, help="The project."),
]
JobId = Annotated[str, typer.Argument(help="The job's id, or its name: the newest of it.", metavar="JOB")]
