"""What was ever made, what still is, what happened, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from sandbox.vm import KINDS, Vm

_HOUR = 3_600_000_000  # microseconds


@dataclass(slots=True)
class Thing:
    """One object of a cloud, from its making to its end."""

    provider: str
    kind: str
    id: str
    vm: str
    made_at: datetime
    gone_at: datetime | None = None


class Ledger:
    """Append-only book of objects, happenings and calls. Not locked: the world is."""

    def __init__(self) -> None:
        self.things: dict[tuple[str, str, str], Thing] = {}
        self.happenings: list[dict[str, Any]] = []
        self.calls: Counter[tuple[str, str]] = Counter()

    def made(self, at: datetime, vm: Vm, kind: str, name: str) -> None:
        """An object came into being with (or for) an instance."""
        self.things[vm.provider, kind, name] = Thing(vm.provider, kind, name, vm.id, at)

    def gone(self, at: datetime, provider: str, kind: str, name: str) -> bool:
        """An object is no more; False if there was none."""
        thing = self.things.get((provider, kind, name))
        if thing is None or thing.gone_at is not None:
            return False
        thing.gone_at = at
        return True

    def note(self, at: datetime, what: str, provider: str, **facts: Any) -> None:
        """Something happened: created, refused, running, notice, terminated and so on."""
        self.happenings.append({"at": stamp(at), "what": what, "provider": provider, **facts})

    def summary(self, vms: Iterable[Vm], now: datetime) -> dict[str, Any]:
        """All of it as plain data, fit for JSON."""
        live: list[dict[str, Any]] = []
        counts = {kind: {"made": 0, "live": 0} for kind in KINDS}
        for thing in self.things.values():
            counts[thing.kind]["made"] += 1
            if thing.gone_at is None:
                counts[thing.kind]["live"] += 1
                live.append({"provider": thing.provider, "kind": thing.kind, "id": thing.id, "vm": thing.vm})
        calls: dict[str, dict[str, int]] = {}
        for (provider, call), count in sorted(self.calls.items()):
            calls.setdefault(provider, {})[call] = count
        return {
            "now": stamp(now),
            "objects": counts,
            "live": live,
            "events": list(self.happenings),
            "calls": calls,
            "bill": bill(vms, now),
        }


def bill(vms: Iterable[Vm], now: datetime) -> dict[str, Any]:
    """Each instance's seconds times the price in force. Exact until it is rounded, to 1e-9 USD."""
    rows = []
    total = Fraction(0)
    for vm in vms:
        if not vm.charges:
            continue
        cost, time = cost_of(vm, now)
        total += cost
        rows.append(
            {
                "provider": vm.provider,
                "vm": vm.id,
                "name": vm.name,
                "region": vm.region,
                "zone": vm.zone,
                "instance_type": vm.instance_type,
                "capacity_type": vm.capacity_type,
                "seconds": time.total_seconds(),
                "prices": [
                    {"from": stamp(c.start), "to": stamp(c.end) if c.end else None, "price": c.price}
                    for c in vm.charges
                ],
                "cost": _dollars(cost),
            }
        )
    return {"instances": rows, "total": _dollars(total), "currency": "USD"}


def cost_of(vm: Vm, now: datetime) -> tuple[Fraction, timedelta]:
    """What an instance has cost until now, exactly, and for how long it was billed."""
    cost = Fraction(0)
    time = timedelta()
    for charge in vm.charges:
        lasted = (charge.end or now) - charge.start
        time += lasted
        cost += Fraction(str(charge.price)) * Fraction(lasted // timedelta(microseconds=1), _HOUR)
    return cost, time


def stamp(at: datetime) -> str:
    """RFC 3339 with Z."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _dollars(amount: Fraction) -> str:
    exact = Decimal(amount.numerator) / Decimal(amount.denominator)
    return f"{exact.quantize(Decimal('1e-9'), ROUND_HALF_UP):f}"
