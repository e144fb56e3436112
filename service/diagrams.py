"""The page docs/state-machines.md, made from the tables in `service.states`."""

from __future__ import annotations

from service.states import MACHINES

_HEAD = """# State machines

Made from the tables in `service/states.py` by `python -m service.diagrams`; a test keeps it true. No state is
set anywhere but in `service/transitions.py`, which checks the table and writes the event along with it.
"""


def page() -> str:
    """The whole page, in Markdown with Mermaid diagrams."""
    parts = [_HEAD]
    for name, table in MACHINES.items():
        edges = [(state, to, when) for state, nexts in table.items() for to, when in nexts.items()]
        diagram = "\n".join(f"    {state} --> {to}" for state, to, _ in edges)
        rows = "\n".join(f"| {state} | {to} | {when} |" for state, to, when in edges)
        parts.append(
            f"\n## {name.capitalize()}\n\n```mermaid\nstateDiagram-v2\n{diagram}\n```\n\n"
            f"| from | to | when |\n|---|---|---|\n{rows}\n"
        )
    return "".join(parts)


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
