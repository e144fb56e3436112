"""A machine of one's own: no cloud takes it away, so there is nothing to watch for."""

from __future__ import annotations

from dataclasses import dataclass

from agent.metadata import Notice


@dataclass(slots=True)
class StandingWatcher:
    """`use`: what the service calls this machine's work for one attempt."""

    use: str
    interval: float = 3600.0

    def instance_id(self) -> str:
        return self.use

    def poll(self) -> Notice | None:
        return None
