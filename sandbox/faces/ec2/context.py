"""What an operation is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.catalogue import Catalogue, Zone, catalogue
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.site import Site
from sandbox.faults import Fault
from sandbox.world import World


@dataclass(frozen=True, slots=True)
class Context:
    """One call: whose world, in which region, with which scripted fault that only an operation can play.

    form: the request as it came, flat.
    """

    world: World
    region: str
    site: Site
    form: Mapping[str, str]
    fault: Fault | None = None

    @property
    def table(self) -> Catalogue:
        """What is sold at all."""
        return catalogue("aws")

    @property
    def zones(self) -> tuple[Zone, ...]:
        """The region's zones."""
        return self.table.zones_of(self.region)

    def zone(self, text: str) -> Zone:
        """A zone of this region by id or name; AwsError if there is none."""
        zone = self.table.zone(text)
        if zone is None or zone.region != self.region:
            raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{text}]")
        return zone


Operation = Callable[[Context, dict[str, Any]], Mapping[str, Any]]


def dry_run(params: Mapping[str, Any]) -> None:
    """Everything was in order, and nothing more was wanted."""
    if params.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
