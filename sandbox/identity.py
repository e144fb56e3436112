"""Names and numbers that the clouds give to what they make; the same seed gives the same."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence

# Which objects come with an instance and what they are called; `{hex}` is drawn, `{name}` is the instance's.
_OBJECTS: dict[str, dict[str, str | Sequence[str]]] = {
    "aws": {"disk": "vol-{hex}", "nic": "eni-{hex}", "address": "{ip}", "spot_request": "sir-{short}"},
    "gcp": {"disk": "{name}", "address": "{ip}"},
    "azure": {"disk": "{name}-os", "nic": "{name}-nic", "address": "{name}-ip"},
}
# Instances are processes of this machine, so that a node reaches another under its private address.
_PRIVATE = {"aws": 10, "gcp": 20, "azure": 30}


class Identity:
    """Draws ids and addresses from one seeded source. `run` counts the runs of one sandbox from 0: a later
    run gives other ids, as a cloud never gives one twice.
    """

    def __init__(self, seed: int, run: int = 0) -> None:
        self._random = random.Random(f"{seed}/identity/{run}" if run else f"{seed}/identity")  # noqa: S311
        self._private = dict.fromkeys(_PRIVATE, 0)
        self._public = 0

    def instance(self, provider: str) -> str:
        """EC2 `i-` + 17 hex digits, a 19 digit number on GCE, a UUID on Azure."""
        if provider == "aws":
            return f"i-{self._hex(17)}"
        if provider == "gcp":
            return str(self._random.randrange(10**18, 9 * 10**18))
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def private_ip(self, provider: str) -> str:
        """An address of the loopback net: each provider has 65,000 in a /16 of its own."""
        self._private[provider] += 1
        number = self._private[provider]
        return f"127.{_PRIVATE[provider]}.{number // 250 % 250}.{number % 250 + 1}"

    def public_ip(self) -> str:
        """An address that nobody routes (RFC 2544, benchmarking)."""
        self._public += 1
        return f"198.18.{self._public // 250 % 250}.{self._public % 250 + 1}"

    def objects(
        self,
        provider: str,
        name: str,
        *,
        public_ip: str | None,
        spot: bool,
        names: Mapping[str, str | Sequence[str]],
    ) -> dict[str, list[str]]:
        """kind -> ids of what is made with an instance. `names` may give other patterns by kind."""
        found = {}
        for kind, patterns in (_OBJECTS[provider] | dict(names)).items():
            if (kind == "address" and public_ip is None) or (kind == "spot_request" and not spot):
                continue
            found[kind] = [
                pattern.format(name=name, ip=public_ip, hex=self._hex(17), short=self._hex(8))
                for pattern in ([patterns] if isinstance(patterns, str) else patterns)
            ]
        return found

    def _hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"
