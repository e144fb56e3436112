"""What the shell is offered when a person presses the tab key."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def offered(*words: str) -> list[str]:
    """The completions of the last word of a command line, as the script for bash asks for them."""
    environment = {
        **os.environ,
        "_CORRAL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "service.cli"], capture_output=True, text=True, env=environment, check=False
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("corral", "expl"), ["explain"]),
        (("corral", "token", "re"), ["revoke"]),
        (("corral", "ps", "--proj"), ["--project"]),
    ],
)
def test_commands_and_options_are_completed(words: tuple[str, ...], found: list[str]) -> None:
    assert offered(*words) == found
