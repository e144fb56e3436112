"""docs/network.md names every host that our code names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HOST = re.compile(r"https?://((?:[a-z0-9-]+\.)+[a-z0-9-]+)")
# Names that are identifiers, documentation or this machine: nothing connects to them.
_NO_CONNECTION = frozenset({"www.googleapis.com", "www.w3.org", "127.0.0.1"})


def test_every_host_in_the_code_is_documented() -> None:
    documented = (ROOT / "docs" / "network.md").read_text("utf-8")
    missing = {}
    for room in ("providers", "agent", "service", "policies", "clock"):
        for path in (ROOT / room).rglob("*.py"):
            code = "\n".join(
                line for line in path.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")
            )
            for host in set(_HOST.findall(code)) - _NO_CONNECTION:
                if host not in documented and not host.endswith((".example.com", "example.com")):
                    missing[host] = str(path.relative_to(ROOT))
    assert missing == {}


def test_the_scan_sees_hosts() -> None:
    found = _HOST.findall('URL = "https://prices.azure.com/api"')
    assert found == ["prices.azure.com"]
