"""`corral demo`: the main job, end to end, on three local clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="An empty folder to work in; default: a temporary one."),
    ] = None,
    scale: Annotated[float, typer.Option("--scale", min=1, max=20, help="How fast time runs.")] = 10.0,
) -> None:
    """See a job run, lose its machine and finish elsewhere.

    On three local clouds: out of stock, preempted, carried over to another cloud, finished.

    Starts clouds and service as processes of their own and ends them in every case. Exit code 1 says what did
    not come true.
    """
    from service.cli.demo.play import play

    play(directory, scale)
