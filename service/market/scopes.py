"""Things filed by the scope that they speak of: those that cover an offer are found without a walk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeVar

from providers.vocabulary import Offer, Scope

T = TypeVar("T")

# Where an offer has what a scope may name. An image or a placement group is no part of an offer.
_PATHS: Mapping[str, str] = {
    "provider": "key.provider",
    "account": "key.account",
    "region": "key.region",
    "zone": "key.zone",
    "instance_type": "key.instance_type",
    "family": "type.family",
    "capacity_type": "key.capacity_type",
    "reservation": "key.reservation",
    "subnet": "subnet",
}


class ScopeIndex(Generic[T]):
    """One dictionary per set of fields that scopes name: of those there are few, however many scopes."""

    def __init__(self) -> None:
        self._everywhere: list[T] = []
        self._files: dict[tuple[str, ...], tuple[Callable[[Any], Any], dict[Any, list[T]]]] = {}

    def add(self, scope: Scope, item: T) -> None:
        """File something under a scope."""
        fields = tuple(name for name in _PATHS if getattr(scope, name) is not None)
        if not fields:
            self._everywhere.append(item)
            return
        if fields not in self._files:
            self._files[fields] = (attrgetter(*(_PATHS[name] for name in fields)), {})
        values = attrgetter(*fields)(scope)
        self._files[fields][1].setdefault(values, []).append(item)

    def covering(self, offer: Offer) -> Iterator[T]:
        """What is filed under scopes that cover the offer."""
        yield from self._everywhere
        for values_of, items in self._files.values():
            found = items.get(values_of(offer))
            if found is not None:
                yield from found
