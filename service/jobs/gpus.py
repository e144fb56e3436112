"""GPUs as people write them, to canonical names, a count and memory bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from providers.accelerators import MEMORY_GB
from service.jobs.quantities import Span, number, size_gib, span, whole

_COUNT = re.compile(r"^\d+(\+|\.\.\d*)?$|^\.\.\d+$")
_VENDORS = ("nvidia-", "tesla-", "nvidia:", "geforce-")
_SIZED = re.compile(r"^(.+)-(\d+)GB$")
_BY_LOWER = {name.lower(): name for name in MEMORY_GB}


class UnknownGpuError(ValueError):
    """A GPU that no cloud of ours sells. `near`: what may have been meant, or every name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not a GPU that is known")
        near = get_close_matches(name.upper(), MEMORY_GB, n=4, cutoff=0.4)
        self.near = tuple(near or MEMORY_GB)


@dataclass
class GpuWish:
    """What was asked for. `names` empty: any GPU within the memory bounds."""

    names: tuple[str, ...] = ()
    count: int = 1
    memory: Span | None = None
    notes: list[str] = field(default_factory=list)


def canonical_name(text: str) -> str:
    """`a100-80gb`, `NVIDIA H100`, `H100-80GB` → `A100-80GB`, `H100`, `H100`. UnknownGpuError otherwise."""
    name = re.sub(r"[\s_]+", "-", text.strip()).lower()
    for vendor in _VENDORS:
        name = name.removeprefix(vendor)
    name = re.sub(r"-(\d+)g$", r"-\1gb", name)
    if name in _BY_LOWER:
        return _BY_LOWER[name]
    sized = _SIZED.match(name.upper())
    if sized and sized[1] in MEMORY_GB and MEMORY_GB[sized[1]] == float(sized[2]):
        return sized[1]
    raise UnknownGpuError(text.strip())


def read_gpu(value: Any) -> GpuWish:
    """Any of: `H100:8`, `A100:80GB:8`, `24GB..80GB:1..8`, `80GB+`, 8, `{A100: 8}`, a list of names,
    `{name: [A100, H100], count: 8, memory: 80GB..}`. ValueError says what is wrong.
    """
    if isinstance(value, bool):
        raise ValueError("is not a GPU; write for example H100:8")
    if isinstance(value, int):
        return GpuWish(count=value)
    if isinstance(value, str):
        return _resolved(*_read_text(value))
    if isinstance(value, list):
        return _read_list(value)
    if isinstance(value, dict):
        return _read_mapping(value)
    raise ValueError("is not a GPU; write for example H100:8")


def _read_text(text: str) -> tuple[list[str], Span | None, Span | None]:
    """Names, memory and count from the parts between the colons, in whichever order."""
    names: list[str] = []
    memory: Span | None = None
    count: Span | None = None
    parts = [part.strip() for part in text.split(":")]
    if parts and parts[0].lower() == "nvidia":
        parts = parts[1:]
    for part in parts:
        if _COUNT.match(part) and count is None and (names or memory or len(parts) == 1):
            count = span(part, number)
        elif _is_memory(part) and memory is None:
            memory = span(part, size_gib)
        elif re.match(r"^-\d", part):
            raise ValueError(f"the count {part} is negative")
        elif part and not names:
            names = [name for name in re.split(r"\s*,\s*", part) if name]
        else:
            raise ValueError(f"{text!r} is not a GPU; write for example H100:8 or A100:80GB:8")
    return names, memory, count


def _is_memory(part: str) -> bool:
    try:
        span(part, size_gib)
    except ValueError:
        return False
    return bool(re.search(r"[GMT]i?B?(\+|\.\.|$)", part, re.IGNORECASE))


def _read_list(value: list[Any]) -> GpuWish:
    """Any of these. They must agree on count and memory, since a job has one of each."""
    if not value or not all(isinstance(item, str) for item in value):
        raise ValueError("as a list it holds names, for example [A100, H100]")
    wishes = [read_gpu(item) for item in value]
    counts = {wish.count for wish in wishes}
    if len(counts) > 1:
        raise ValueError(
            "as a list it has one count for all; ask for alternatives with different counts apart"
        )
    if any(not wish.names for wish in wishes):
        raise ValueError("as a list it holds names, for example [A100, H100]")
    names = tuple(dict.fromkeys(name for wish in wishes for name in wish.names))
    return GpuWish(names, counts.pop(), None, [note for wish in wishes for note in wish.notes])


def _read_mapping(value: dict[str, Any]) -> GpuWish:
    known = {"name", "count", "memory", "vendor"}
    if set(value) <= known | {"min_memory_gb", "max_memory_gb"}:
        vendor = value.get("vendor")
        if vendor is not None and str(vendor).lower() != "nvidia":
            raise ValueError(f"vendor {vendor} is not supported yet; allowed: nvidia")
        given = value.get("name")
        names = [str(name) for name in (given if isinstance(given, (list, tuple)) else [given]) if name]
        low, high = value.get("min_memory_gb"), value.get("max_memory_gb")
        memory = Span(low, high) if low is not None or high is not None else None
        if value.get("memory") is not None:
            memory = span(value["memory"], size_gib)
        count = None if value.get("count") is None else span(value["count"], number)
        return _resolved(names, memory, count)
    for name in ("total_memory", "compute_capability"):
        if name in value:
            raise ValueError(f"{name} is not supported yet")
    if len(value) != 1:
        raise ValueError("has fields that are not known; allowed: name, count, memory, or one NAME: COUNT")
    ((name, count),) = value.items()
    return _resolved([str(name)], None, span(1 if count is None else count, number))


def _resolved(names: list[str], memory: Span | None, count: Span | None) -> GpuWish:
    notes = []
    if count is not None and count.low != count.high and count.high is not None:
        notes.append(
            f"the upper end of the count, {count.high:g}, is not enforced; at least the lower end is"
        )
    least = 1 if count is None or count.low is None else whole(count.low)
    if not names:
        return GpuWish((), least, memory, notes)
    exact = [canonical_name(name) if memory is None else name for name in names]
    if memory is None:
        return GpuWish(tuple(dict.fromkeys(exact)), least, None, notes)
    found = tuple(dict.fromkeys(size for name in names for size in _of_memory(name, memory)))
    return GpuWish(found, least, None, notes)


def _of_memory(name: str, memory: Span) -> list[str]:
    """The sizes of one model that lie within the bounds: `A100` with 80 GB is `A100-80GB`."""
    base = canonical_name(name)
    family = [
        size for size in MEMORY_GB if size == base or (size.startswith(f"{base}-") and _SIZED.match(size))
    ]
    low, high = memory.low or 0, memory.high or float("inf")
    found = [size for size in family if low <= MEMORY_GB[size] <= high]
    if not found:
        sizes = " or ".join(f"{MEMORY_GB[size]:g}" for size in family)
        raise ValueError(f"{base} has {sizes} GB")
    return found
