"""What it costs to read all that a cloud sells: the real adapters, over HTTP, on lists of real size.

    python -m bench.providers [--json] [PROVIDER ...]

Each provider is measured in a process of its own, on an account with every region, all regions at once in the
service's own pools; the clouds' answers come from another process. The first row of each is the cost of
imports: a first reading of a cloud that sells next to nothing. Then everything is read, and read again as the
next poll does, from what is remembered. CPU is the process's own and so hardly depends on what else the
machine does; memory is the most that was resident above what was before.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

CPU_LIMIT, MEMORY_LIMIT = 2.0, 60.0  # seconds, MB
PROVIDERS = ("aws", "gcp", "azure")


class Meter:
    """Processor seconds, seconds and MB of this process between two moments."""

    def __init__(self) -> None:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew [proc(5)]
        self._resident = _resident("VmRSS")
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """What was used since."""
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        peak = _resident("VmHWM") - self._resident
        gc.collect()
        kept = _resident("VmRSS") - self._resident
        return {
            "cpu_s": round(cpu, 2),
            "wall_s": round(wall, 1),
            "peak_mb": round(peak, 1),
            "kept_mb": round(kept, 1),
        }


def _resident(name: str) -> float:
    """MB of that line of the kernel's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise KeyError(name)


def _account(provider: str, endpoint: str, regions: tuple[str, ...]) -> dict[str, Any]:
    """Settings of an account with all those regions. `endpoint` is loopback, so that no secret is needed."""
    subnet = {"azure": "/subscriptions/s/resourceGroups/g/providers/n/virtualNetworks/v/subnets/s"}
    subnets = [subnet[provider]] if provider in subnet else []
    return {
        "name": "bench",
        "provider": provider,
        "endpoint": endpoint,
        "project": "bench",
        "subscription": "00000000-0000-0000-0000-000000000001",
        "resource_group": "bench",
        "credentials": {"environment": "BENCH_"} if provider == "aws" else {},
        "regions": {region: {"subnets": subnets} for region in regions},
    }


def _regions(provider: str) -> tuple[str, ...]:
    from bench.inventory import arm, ec2, gce

    return {"aws": ec2.REGIONS, "gcp": gce.REGIONS, "azure": arm.REGIONS}[provider]


def measure(provider: str, full: str, thin: str) -> list[dict[str, Any]]:
    """The rows of one provider, measured in this process."""
    from service.arenas import bound_arenas

    bound_arenas()
    regions = _regions(provider)
    meter = Meter()
    first = _adapter(provider, thin, regions[:1])
    first.offers(regions[0])
    first.close()
    rows = [{"what": "imports", **meter.read()}]
    adapter = _adapter(provider, full, regions)
    for what in ("everything", "next poll"):
        _counted(full)
        meter = Meter()
        offers = _read_all(adapter, regions)
        rows.append({"what": what, **meter.read(), "offers": offers, **_counted(full)})
    adapter.close()
    return [{"provider": provider, "regions": len(regions), **row} for row in rows]


def _adapter(provider: str, endpoint: str, regions: tuple[str, ...]) -> Any:
    from clock import ScaledClock
    from providers.config import AccountConfig
    from service.accounts import make_provider

    return make_provider(AccountConfig.model_validate(_account(provider, endpoint, regions)), ScaledClock())


def _read_all(adapter: Any, regions: tuple[str, ...]) -> int:
    """Read each region in its own pool, as the market loop does; how many offers with a price there were."""
    from service.pools import Pools

    pools = Pools({})
    found: dict[str, int] = {}
    failed: list[Exception] = []
    done = threading.Semaphore(0)

    def read(region: str) -> None:
        try:
            listing = adapter.offers(region)
            assert not listing.incomplete, listing.incomplete
            found[region] = sum(
                offer.price_source == "live" and bool(offer.price) for offer in listing.offers
            )
        except Exception as error:
            failed.append(error)
        finally:
            done.release()

    for region in regions:
        pools((adapter.provider, adapter.account, region), partial(read, region))
    for _ in regions:
        done.acquire()
    pools.close(10)
    if failed:
        raise failed[0]
    return sum(found.values())


def _counted(address: str) -> dict[str, Any]:
    with urlopen(f"{address}/counted") as answer:  # noqa: S310
        told = json.load(answer)
    return {"answers": told["answers"], "received_mb": round(told["bytes"] / 1e6, 1)}


def _measured_apart(provider: str, addresses: list[str]) -> list[dict[str, Any]]:
    """The rows of one provider, from a process of its own."""
    environment = {
        "PATH": os.environ["PATH"],
        "NO_PROXY": "127.0.0.1",
        "BENCH_AWS_ACCESS_KEY_ID": "local",
        "BENCH_AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    command = [sys.executable, "-m", "bench.providers", "--child", *addresses, provider]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@contextmanager
def _served() -> Iterator[list[str]]:
    """Addresses of the full and the thin lists."""
    command = [sys.executable, "-m", "bench.inventory.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().split()
        server.stdin.close()


def machine() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def _line(row: dict[str, Any]) -> str:
    figures = (f"{row[key]:>10}" for key in ("cpu_s", "wall_s", "peak_mb", "kept_mb"))
    more = (f"{row.get(key, ''):>12}" for key in ("answers", "received_mb", "offers"))
    return f"{row['provider']:7}{row['regions']:>8}  {row['what']:12}{''.join(figures)}{''.join(more)}"


def show(rows: list[dict[str, Any]]) -> None:
    """The table."""
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    columns = ("CPU s", "wall s", "peak MB", "kept MB")
    more = ("answers", "received MB", "offers")
    print(
        f"{'':7}{'regions':>8}  {'':12}"
        + "".join(f"{c:>10}" for c in columns)
        + "".join(f"{c:>12}" for c in more)
    )
    for row in rows:
        print(_line(row))
    for row in rows:
        if row["what"] != "imports" and (row["cpu_s"] > CPU_LIMIT or row["peak_mb"] > MEMORY_LIMIT):
            print(
                f"over the limit of {CPU_LIMIT:g} s and {MEMORY_LIMIT:g} MB: {row['provider']}, {row['what']}"
            )


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help=", ".join(PROVIDERS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.providers) - set(PROVIDERS)
    if unknown:
        parser.error(f"no provider {', '.join(sorted(unknown))}; allowed: {', '.join(PROVIDERS)}")
    if arguments.child:
        print(json.dumps(measure(arguments.providers[0], *arguments.child)))
        return
    with _served() as addresses:
        rows = [row for name in arguments.providers or PROVIDERS for row in _measured_apart(name, addresses)]
    if arguments.json:
        print(json.dumps({"machine": machine(), "results": rows}, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
