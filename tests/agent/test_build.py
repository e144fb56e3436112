"""The zipapp: the same bytes each time, alone in the world, quick to start."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import agent
from agent.build import build

ALLOWED = {"agent", "clock", "httpx", "obstore", "pynvml", "cryptography"}


def test_same_sources_give_the_same_bytes_also_in_another_process(tmp_path: Path, zipapp: Path) -> None:
    again = tmp_path / "again.pyz"
    code = "import sys, json, pathlib; from agent.build import build; build(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(again)], check=True)
    assert again.read_bytes() == zipapp.read_bytes() == build(tmp_path / "here.pyz").read_bytes()


def test_zipapp_runs_with_nothing_of_the_checkout(tmp_path: Path, zipapp: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(zipapp), "version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == agent.__version__


def test_zipapp_holds_agent_and_clock_and_no_more(zipapp: Path) -> None:
    with zipfile.ZipFile(zipapp) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"__main__.py", "__main__.pyc", "agent", "clock"}


def test_wrong_call_says_how_it_is_meant(zipapp: Path) -> None:
    done = subprocess.run([sys.executable, str(zipapp), "help"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_agent_imports_nothing_but_the_clock_and_what_its_image_has() -> None:
    folder = Path(agent.__file__).parent
    imported: set[str] = set()
    for source in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.partition(".")[0])
    assert imported - sys.stdlib_module_names <= ALLOWED


def test_start_loads_neither_the_object_store_nor_cryptography_nor_a_command_line() -> None:
    code = (
        "import sys, agent.start; from agent.client import ServiceClient; from clock import REAL;"
        "ServiceClient('http://127.0.0.1:9', REAL);"
        "heavy = {'obstore', 'cryptography', 'rich', 'click', 'pynvml', 'asyncio'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
