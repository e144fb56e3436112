"""What the account has in each region before anything is launched: a default network and an image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from sandbox.catalogue import Zone, catalogue

ACCOUNT = "000000000000"
IMAGE_NAME = "corral-agent-ubuntu-24.04-v1"
IMAGE_MADE = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
IMAGE_GIB = 30
ROOT_DEVICE = "/dev/sda1"

#: SSM parameters that hold the region's image.
PARAMETERS = (
    "/corral/images/x86_64/latest",
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
)


@dataclass(frozen=True, slots=True)
class Subnet:
    """The default subnet of a zone; every address that it gives out is public as well, if asked for."""

    id: str
    zone: Zone
    cidr: str
    addresses: int = 4091


@dataclass(frozen=True, slots=True)
class Site:
    """A region as the account finds it. `subnets` by id, one for each zone."""

    region: str
    vpc: str
    security_group: str
    image: str
    subnets: dict[str, Subnet]

    def subnet_of(self, zone_key: str) -> Subnet:
        """The default subnet of a zone."""
        return next(subnet for subnet in self.subnets.values() if subnet.zone.key == zone_key)


def site(region: str) -> Site:
    """The same ids each time, others in each region."""
    zones = catalogue("aws").zones_of(region)
    subnets = [
        Subnet(f"subnet-{_hex(zone.key, 17)}", zone, f"172.31.{16 * index}.0/20")
        for index, zone in enumerate(zones)
    ]
    return Site(
        region=region,
        vpc=f"vpc-{_hex(f'{region}/vpc', 17)}",
        security_group=f"sg-{_hex(f'{region}/sg', 17)}",
        image=f"ami-{_hex(f'{region}/ami', 17)}",
        subnets={subnet.id: subnet for subnet in subnets},
    )


def _hex(seed: str, digits: int) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()[:digits]
