"""`corral backtest`: what a policy would have paid in recorded spot markets. Needs no service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.failure import CommandError, UsageError

if TYPE_CHECKING:
    from policies.backtest.problem import Problem
    from policies.backtest.simulation import Run

Markets = Annotated[
    list[Path],
    typer.Argument(help="Recorded markets: JSON files, or folders of them.", metavar="FILE_OR_FOLDER"),
]
Policy = Annotated[
    str, typer.Option("--policy", help="A policy's name, or `all`. Unknown names list them.", metavar="NAME")
]
Log = Annotated[bool, typer.Option("--log", help="With --json: what happened in every tick.")]
Optimum = Annotated[bool, typer.Option("--optimum", help="Compare with the least that was possible.")]
Probes = Annotated[bool, typer.Option("--probes/--no-probes", help="Whether the policy may probe zones.")]
Picture = Annotated[
    Path | None, typer.Option("--picture", help="Write one run as a picture (SVG).", metavar="FILE.svg")
]


def backtest(
    markets: Markets,
    policy: Policy = "default",
    log: Log = False,
    optimum: Optimum = False,
    probes: Probes = True,
    picture: Picture = None,
    json: Json = False,
) -> None:
    """Replay recorded spot markets and show what a policy would have paid.

    The policies of the service are replayed by the code that the service runs. Exit code 1 if a job of
    `default` is late.
    """
    from policies.backtest.figures import COLUMNS, rows
    from service.cli.show import as_json, table

    names = _names(policy)
    problems = list(_problems(markets))
    if log and not json:
        raise UsageError("--log: give --json as well, or nothing shows it")
    if picture and picture.suffix.lower() != ".svg":
        raise UsageError(f"--picture {picture}: pictures are SVG; give a name that ends in .svg")
    if picture and (len(problems) != 1 or len(names) != 1):
        raise UsageError(
            f"--picture shows one run, not {len(problems) * len(names)}: give one market file and one policy"
        )
    results = []
    for suite, problem in problems:
        least = _least(problem) if optimum else None
        for name in names:
            run = _run(problem, name, probes)
            results.append(_result(suite, name, run, least, log))
            if picture:
                _draw(run, name, picture)
    if json:
        as_json([result.document for result in results])
    else:
        table(COLUMNS, rows(results), empty="no recorded markets there")
    late = [r for r in results if r.policy == "deadline" and not r.document["met_deadline"]]
    if late:
        raise CommandError(f"backtest: {len(late)} late, the first in {late[0].document['name']}")


def _names(policy: str) -> Sequence[str]:
    from policies.backtest.policies import ALIASES, NAMES

    if policy == "all":
        return NAMES
    name = ALIASES.get(policy, policy)
    if name not in NAMES:
        raise UsageError(f"--policy {policy}: allowed are default, all, {', '.join(NAMES)}")
    return (name,)


def _problems(places: Sequence[Path]) -> Iterator[tuple[str, Problem]]:
    """Every market with the name of its folder. JSON without zones in a folder is passed over."""
    from policies.backtest.problem import ProblemError, is_problem, parse

    for place in places:
        if not place.exists():
            raise UsageError(f"{place}: no such file or folder")
        files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        for file in files:
            document = _read(file)
            if not is_problem(document):
                if file is place:
                    raise UsageError(f"{file}: no recorded market: it has no zones")
                continue
            try:
                yield file.parent.name or ".", parse(document)
            except (ProblemError, KeyError, TypeError, ValueError) as error:
                missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise UsageError(f"{file}: {missing}") from None


def _read(file: Path) -> Any:
    import json

    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from None


def _least(problem: Problem) -> float | None:
    from policies.backtest.optimum import optimum

    plan = optimum(problem)
    return plan.cost if plan else None


def _run(problem: Problem, name: str, probes: bool) -> Run:
    from policies.backtest.policies import run

    return run(problem, name, probes=probes)


def _result(suite: str, name: str, run: Run, least: float | None, log: bool) -> Any:
    from policies.backtest.figures import Result, document, on_demand_cost

    return Result(suite, name, document(run, name, least, log=log), least, on_demand_cost(run.problem))


def _draw(run: Run, name: str, path: Path) -> None:
    from policies.backtest.picture import picture
    from service.cli.show import note

    try:
        path.write_text(picture(run, name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--picture {path}: {error.strerror}") from None
    note(f"picture: {path}")
