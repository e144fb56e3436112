"""Failures that a test scripts: which call fails, how often, and whether it has its effect all the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from providers.errors import ProviderError
from providers.vocabulary import Offer, Scope


@dataclass(slots=True)
class Fault:
    """`times` None lasts until it is cleared. With `after_effect` the call is carried out and then fails."""

    call: str
    error: ProviderError
    times: int | None = 1
    scope: Scope = field(default_factory=Scope)
    after_effect: bool = False


@dataclass(slots=True)
class Blindness:
    """A place (zone or region) that the next listings of a call cannot read."""

    call: str
    place: str
    times: int | None = 1


class Script:
    """Faults in the order in which they were scripted; each call takes the first that fits it."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._blind: list[Blindness] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def blind(self, blindness: Blindness) -> None:
        self._blind.append(blindness)

    def clear(self) -> None:
        self._faults.clear()
        self._blind.clear()

    def take(self, call: str, offer: Offer | None = None) -> Fault | None:
        """The fault that this call meets, used up by one; without an offer only unscoped faults fit."""
        for fault in self._faults:
            fits = fault.scope.covers(offer) if offer is not None else fault.scope == Scope()
            if fault.call == call and fits:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None

    def hidden(self, call: str, places: frozenset[str]) -> tuple[str, ...]:
        """Those of the places that this listing cannot see, used up by one."""
        hidden = []
        for blindness in list(self._blind):
            if blindness.call == call and blindness.place in places:
                hidden.append(blindness.place)
                if blindness.times is not None:
                    blindness.times -= 1
                    if blindness.times == 0:
                        self._blind.remove(blindness)
        return tuple(hidden)
