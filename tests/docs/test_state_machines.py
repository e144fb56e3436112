"""The page on the state machines is the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from service.diagrams import page
from service.states import MACHINES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_from_the_tables() -> None:
    assert (DOCS / "state-machines.md").read_text() == page(), (
        "run: python -m service.diagrams > docs/state-machines.md"
    )


def test_every_state_can_be_reached_and_an_end_can_be_reached_from_every_state() -> None:
    for name, table in MACHINES.items():
        edges: dict[str, set[str]] = {str(state): {str(to) for to in nexts} for state, nexts in table.items()}
        first = next(iter(edges))
        assert _reachable(edges, first) == set(edges), name
        ends = {state for state, nexts in edges.items() if not nexts}
        assert all(_reachable(edges, state) & ends for state in edges), name


def _reachable(edges: Mapping[str, set[str]], start: str) -> set[str]:
    seen, new = {start}, [start]
    while new:
        for state in edges[new.pop()] - seen:
            seen.add(state)
            new.append(state)
    return seen
