"""Imports point down, and nothing cloudy is imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {"service", "policies", "providers", "agent", "sandbox", "clock"}
MAY_IMPORT = {
    "clock": set[str](),
    "agent": {"clock"},
    "sandbox": {"clock"},
    "providers": {"clock"},
    "policies": {"providers"},
    "service": {"policies", "providers", "clock"},
}
ENTRANCES = (
    "service.cli.main",
    "service.serve",
    "providers.aws.adapter",
    "providers.gcp.adapter",
    "providers.azure.adapter",
)
SDKS = ("boto3", "botocore", "google.cloud", "azure")


def imports(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_point_down(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        allowed = MAY_IMPORT[room] | {room}
        if "cli" in path.parts:
            allowed |= {"sandbox", "agent"}
        wrong = {name for name in imports(path) if name.split(".")[0] in ROOMS - allowed}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_policies_know_nothing_but_the_vocabulary() -> None:
    for path in (ROOT / "policies").rglob("*.py"):
        of_providers = {name for name in imports(path) if name.startswith("providers")}
        assert of_providers <= {"providers.vocabulary"}, path
        assert not imports(path) & {"random", "time", "sqlmodel", "sqlalchemy", "threading"}, path


@pytest.mark.parametrize("module", ENTRANCES)
def test_no_sdk_is_imported_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith({SDKS!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
