"""What it costs to read a checkpoint out of the store that keeps it: USD per GB, by where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policies.model import Place


@dataclass(frozen=True, slots=True)
class Tariff:
    """USD per GB out of a store in a region: into another region of the same cloud, and out of the cloud."""

    other_region: float
    other_cloud: float


# List prices of the first tier, from North America or Europe; data that stays in its region is free.
TARIFFS: Mapping[str, Tariff] = {
    # https://aws.amazon.com/s3/pricing/, "Data transfer"
    "aws": Tariff(0.02, 0.09),
    # https://cloud.google.com/storage/pricing, "Network": between regions of a continent, and premium tier
    "gcp": Tariff(0.02, 0.12),
    # https://azure.microsoft.com/pricing/details/bandwidth/
    "azure": Tariff(0.02, 0.087),
}


@dataclass(frozen=True, slots=True)
class Home:
    """Where a store is. `region` None is unknown: every region counts as another."""

    provider: str
    region: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointEgress(Mapping[Place, float]):
    """USD for reading a checkpoint of so many GB from its home, for any place."""

    home: Home
    gigabytes: float

    def __getitem__(self, place: Place) -> float:
        provider, region, _ = place
        tariff = TARIFFS.get(self.home.provider)
        if tariff is None:
            raise KeyError(place)
        if provider != self.home.provider:
            return tariff.other_cloud * self.gigabytes
        return 0.0 if region == self.home.region else tariff.other_region * self.gigabytes

    def __iter__(self) -> Iterator[Place]:
        """It holds for every place there is, and lists none."""
        return iter(())

    def __len__(self) -> int:
        return 0
