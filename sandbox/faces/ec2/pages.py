"""Filters and pages, as EC2's Describe calls have them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from sandbox.faces.ec2.errors import AwsError

T = TypeVar("T")

#: What a filter looks at: the values that an item has under the filter's name.
Getter = Callable[[Any], Iterable[Any]]


def filtered(
    items: Iterable[T], filters: Sequence[Mapping[str, Any]], getters: Mapping[str, Getter]
) -> list[T]:
    """Items that match each filter with one of its values (`*` and `?` allowed). `tag:KEY` asks the getter
    `tag:`, which gives the tags as a mapping. An unknown filter is an error, as on EC2.
    """
    found = list(items)
    for rule in filters:
        name, wanted = rule.get("Name", ""), rule.get("Values", [])
        if name.startswith("tag:") and "tag:" in getters:
            key = name.removeprefix("tag:")
            values = [_tag(getters["tag:"](item), key) for item in found]
        elif name in getters and name != "tag:":
            values = [[_spelt(value) for value in getters[name](item)] for item in found]
        else:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
        found = [item for item, has in zip(found, values, strict=True) if _any(has, wanted)]
    return found


def _tag(tags: Any, key: str) -> list[str]:
    return [tags[key]] if key in tags else []


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _any(values: Iterable[str], wanted: Sequence[str]) -> bool:
    # EC2 knows no character classes: a bracket in a value means itself.
    patterns = [pattern.replace("[", "[[]") for pattern in wanted]
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def page(
    items: Sequence[T], params: Mapping[str, Any], key: str, *, most: int = 1000
) -> tuple[list[T], str | None]:
    """The page that `NextToken` asks for and the token of the next one, None on the last. A token of another
    call is refused.
    """
    start, _ = _read(params.get("NextToken"), key)
    step = params.get("MaxResults") or most
    after = start + min(step, most)
    return list(items[start:after]), _token(key, after) if after < len(items) else None


def empty_page(params: Mapping[str, Any], key: str) -> str:
    """A token for going on where this call would have begun: what follows an empty page. It is never the one
    that was sent, which SDKs take for an endless loop.
    """
    start, empties = _read(params.get("NextToken"), key)
    return _token(key, start, empties + 1)


def no_ids_and_pages(params: Mapping[str, Any], ids: str) -> None:
    """MaxResults cannot stand beside a list of ids."""
    if params.get(ids) and params.get("MaxResults"):
        text = f"The parameter {ids} cannot be used with the parameter maxResults"
        raise AwsError("InvalidParameterCombination", text)


def _token(key: str, start: int, empties: int = 0) -> str:
    return base64.urlsafe_b64encode(f"{key}/{start}/{empties}".encode()).decode()


def _read(token: str | None, key: str) -> tuple[int, int]:
    """Where a token goes on, and how many empty pages stood there already."""
    if not token:
        return 0, 0
    try:
        name, start, empties = base64.urlsafe_b64decode(token.encode()).decode().split("/")
        if name == key:
            return int(start), int(empties)
    except ValueError:
        pass
    raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
