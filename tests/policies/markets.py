"""Small recorded markets, made up: by hand, or by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

GAP = 600.0


def zone(
    capacity: str, spot: float | list[float] = 1.0, on_demand: float = 3.0, name: str = "a", region: str = "r"
) -> dict[str, Any]:
    """A zone whose capacity is drawn: `#` a tick with, `.` one without."""
    return {
        "name": name,
        "region": region,
        "provider": "aws",
        "on_demand_price": on_demand,
        "spot_price": spot,
        "capacity": [int(tick == "#") for tick in capacity],
    }


def market(*zones: dict[str, Any], work: float, egress: float = 0.0, **more: Any) -> dict[str, Any]:
    """A problem over these zones; the deadline is the end of the drawing. Work in ticks."""
    size = len(zones)
    return {
        "name": "drawn",
        "gap_seconds": GAP,
        "work_seconds": work * GAP,
        "deadline_seconds": len(zones[0]["capacity"]) * GAP,
        "restart_seconds": 0.0,
        "probe_seconds": 60.0,
        "capacity_is_visible": False,
        "zones": list(zones),
        "egress": [[0.0 if i == j else egress for j in range(size)] for i in range(size)],
        **more,
    }


@st.composite
def spells(draw: st.DrawFn, ticks: int) -> list[int]:
    """Capacity in spells, as in recorded markets."""
    series: list[int] = []
    up = draw(st.booleans())
    while len(series) < ticks:
        series += [int(up)] * draw(st.integers(1, 8))
        up = not up
    return series[:ticks]


@st.composite
def markets(draw: st.DrawFn, most_zones: int = 3, most_ticks: int = 24) -> dict[str, Any]:
    """Markets in which on-demand can be on time, some of them only just."""
    ticks = draw(st.integers(6, most_ticks))
    restart = draw(st.sampled_from([0.0, 120.0, 600.0, 720.0, 1500.0]))
    most = (ticks * GAP - restart) / GAP
    work = draw(st.sampled_from([most, most * 0.9, most * 0.6, most * 0.3]))
    zones = []
    for number in range(draw(st.integers(1, most_zones))):
        on_demand = draw(st.integers(20, 60)) / 10
        spot = st.integers(2, 40).map(lambda tenths: tenths / 10)
        price = draw(spot | st.lists(spot, min_size=ticks, max_size=ticks))
        drawn = "".join("#" if has else "." for has in draw(spells(ticks)))
        zones.append(zone(drawn, price, on_demand, f"z{number}", f"r{draw(st.integers(0, 1))}"))
    egress = draw(st.sampled_from([0.0, 0.1, 5.0]))
    visible = draw(st.booleans())
    return market(*zones, work=work, egress=egress, restart_seconds=restart, capacity_is_visible=visible)
