"""A run as a picture (SVG): capacity and price per zone, where the job was, and its progress against the
deadline. Pure text; readable in black and white, as spot is filled and on-demand is hatched.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from policies.backtest.simulation import Entry, Mode, Run

WIDTH, LEFT, RIGHT = 1000, 190, 30
ROW, BAND, TOP, CHART = 26, 14, 66, 170
INK, GREY, CAPACITY, SPOT, ON_DEMAND = "#1f2933", "#7b8794", "#cfe3d4", "#1f6f43", "#c2571a"
HOUR_STEPS = (1, 2, 3, 6, 12, 24, 48)


def picture(run: Run, policy: str) -> str:
    """The SVG document."""
    height = TOP + ROW * len(run.problem.zones) + CHART + 84
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(run.problem.name)}: {escape(policy)}</title>",
        '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="5" height="5" fill="#fff"/>'
        f'<rect width="3" height="5" fill="{ON_DEMAND}"/></pattern></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *_heading(run, policy),
        *_hours(run),
        *_zones(run),
        *_progress(run),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.4):.2f}" height="{height}" fill="{fill}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, more: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>'


def _x(run: Run, tick: float) -> float:
    """Where a tick begins; the deadline is at the right end."""
    return LEFT + (WIDTH - LEFT - RIGHT) * tick * run.problem.gap / run.problem.deadline


def _chart_top(run: Run) -> float:
    return TOP + ROW * len(run.problem.zones) + 34


def _heading(run: Run, policy: str) -> Iterator[str]:
    bill, problem = run.bill, run.problem
    end = f"done after {run.finish / 3600:.1f} h" if run.finish is not None else "NOT DONE IN TIME"
    parts = f"spot ${bill.spot:.2f}, on-demand ${bill.on_demand:.2f}, egress ${bill.egress:.2f}"
    probes = f", probes ${bill.probes:.2f}" if bill.probes else ""
    yield _text(16, 22, f"{problem.name} · {policy}", 'font-size="15" font-weight="600"')
    told = f"${bill.total:.2f} ({parts}{probes}) · {end} of {problem.deadline / 3600:.1f} h"
    yield _text(16, 40, f"{told} · {run.launches} launches, {run.moves} moves", f'fill="{GREY}"')
    legend = ((CAPACITY, "spot capacity"), (SPOT, "job on spot"), ("url(#hatch)", "job on on-demand"))
    for place, (fill, text) in enumerate(legend):
        x = WIDTH - 400 + 130 * place
        yield _bar(x, 13, 14, 10, fill)
        yield _text(x + 19, 22, text)


def _hours(run: Run) -> Iterator[str]:
    """Vertical lines and their hours."""
    hours = run.problem.deadline / 3600
    step = next((step for step in HOUR_STEPS if hours / step <= 12), HOUR_STEPS[-1])
    bottom = _chart_top(run) + CHART
    for hour in range(0, int(hours) + 1, step):
        x = _x(run, hour * 3600 / run.problem.gap)
        yield _line(x, TOP - 8, x, bottom, 'stroke="#e4e7eb"')
        yield _text(x, bottom + 16, f"{hour} h", f'text-anchor="middle" fill="{GREY}"')


def _zones(run: Run) -> Iterator[str]:
    for number, zone in enumerate(run.problem.zones):
        y = TOP + ROW * number
        prices = sorted({min(zone.spot_price), max(zone.spot_price)})
        yield _text(LEFT - 12, y + 7, zone.name[:28], 'text-anchor="end"')
        price = f"{'–'.join(f'{p:.2f}' for p in prices)} / {zone.on_demand_price:.2f} $/h"
        yield _text(LEFT - 12, y + 18, price, f'text-anchor="end" font-size="9" fill="{GREY}"')
        for start, end in _spells(list(zone.capacity)):
            yield _bar(_x(run, start), y, _x(run, end) - _x(run, start), BAND, CAPACITY)
        for mode, fill in ((Mode.SPOT, SPOT), (Mode.ON_DEMAND, "url(#hatch)")):
            for start, end in _spells([_is(entry, number, mode) for entry in run.log]):
                yield _bar(_x(run, start), y + 3, _x(run, end) - _x(run, start), BAND - 6, fill)


def _is(entry: Entry, zone: int, mode: Mode) -> bool:
    return entry.zone == zone and entry.mode is mode


def _spells(flags: list[bool]) -> Iterator[tuple[int, int]]:
    """First and past-the-last tick of each unbroken stretch of True."""
    start = None
    for tick, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = tick
        elif not flag and start is not None:
            yield start, tick
            start = None


def _progress(run: Run) -> Iterator[str]:
    """Work done over time, and the line behind which even on-demand would be late."""
    problem, top = run.problem, _chart_top(run)
    bottom = top + CHART

    def y(done: float) -> float:
        return bottom - CHART * min(max(done / problem.work, 0.0), 1.0)

    for share in (0.0, 0.5, 1.0):
        yield _line(LEFT, y(share * problem.work), WIDTH - RIGHT, y(share * problem.work), 'stroke="#e4e7eb"')
        label = f"{share * problem.work / 3600:.1f} h of work"
        yield _text(LEFT - 12, y(share * problem.work) + 4, label, 'text-anchor="end"')
    latest = (problem.deadline - problem.restart - problem.work) / problem.gap
    ends = _x(run, latest + problem.work / problem.gap)
    yield _line(_x(run, latest), bottom, ends, top, f'stroke="{ON_DEMAND}" stroke-dasharray="5 4"')
    yield _text(ends - 6, top - 8, "latest for on-demand", f'text-anchor="end" fill="{ON_DEMAND}"')
    points = [f"{_x(run, 0):.1f},{bottom:.1f}"]
    points += [f"{_x(run, tick + 1):.1f},{y(done):.1f}" for tick, done in enumerate(run.done)]
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{SPOT}" stroke-width="2"/>'
    x = _x(run, problem.deadline / problem.gap)
    yield _line(x, TOP - 8, x, bottom, f'stroke="{INK}" stroke-width="1.5"')
    yield _text(x, bottom + 32, "deadline", 'text-anchor="end" font-weight="600"')
