"""Zones that EC2 names when another one is out of stock: "... or choosing us-east-1a, us-east-1c." The words
may change, so nothing depends on them. [EC2 API Reference, "Error codes", InsufficientInstanceCapacity]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

_CHOOSING = re.compile(r"\bor choosing\b(.*)", re.DOTALL)


def hinted(error: ProviderError, subject: Scope, zone_of: Callable[[str], str]) -> tuple[Scope, ...]:
    """The same offer in the zones that the message names. zone_of: from a zone's name to its id; a name that
    it does not know is left out.
    """
    found = _CHOOSING.search(error.message)
    if error.kind is not ErrorKind.CAPACITY or found is None or subject.region is None:
        return ()
    names = re.findall(rf"\b{re.escape(subject.region)}[a-z]\b", found.group(1))
    zones = {name: zone_of(name) for name in dict.fromkeys(names)}
    offer = Scope(
        provider=subject.provider,
        account=subject.account,
        region=subject.region,
        instance_type=subject.instance_type,
        capacity_type=subject.capacity_type,
    )
    return tuple(
        replace(offer, zone=zone) for name, zone in zones.items() if zone not in (name, subject.zone)
    )
