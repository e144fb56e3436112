"""The handle of a launch: where each node's create can be asked after, as one text."""

from __future__ import annotations

from collections.abc import Mapping

LIMIT = 4096  # characters that a handle may have; an address may have as many (Azure, "async operations")


def handle(urls: Mapping[int, str]) -> str | None:
    """`NODE@ADDRESS` for each node, as many as fit; None if there is nothing to ask after."""
    text = ""
    for node, url in sorted(urls.items()):
        longer = f"{text} {node}@{url}".strip()
        if len(longer) > LIMIT:
            break
        text = longer
    return text or None


def address(text: str | None, node: int | None) -> str | None:
    """The address of one node's create, None if the handle does not hold it."""
    for part in (text or "").split():
        number, mark, url = part.partition("@")
        if mark and number == str(node):
            return url
    return None
