"""The small interface behind which a cloud hides. One object per account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.signals import SignalListing
from providers.vocabulary import (
    CheckResult,
    CloudInstance,
    InstanceRef,
    Launched,
    LaunchRequest,
    Listing,
    OfferListing,
)


class Provider(Protocol):
    """One account of one cloud.

    Methods are synchronous, may be called from several threads at once, and raise ProviderError only.
    Reads are retried inside; nothing that creates something is.
    """

    @property
    def provider(self) -> str:
        """`aws`, `gcp`, `azure`."""

    @property
    def account(self) -> str:
        """The account's name in the settings."""

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that the settings allow."""

    @property
    def consistency_window(self) -> timedelta:
        """How long after a create the cloud may still deny knowing of it."""

    @property
    def reclaims_powered_off(self) -> bool:
        """True where an instance that shuts itself down is deleted, False where it is billed on."""

    def check(self) -> Sequence[CheckResult]:
        """Look at credentials, permissions, regions, images and networks; never raises."""

    def offers(self, region: str) -> OfferListing:
        """What can be asked for in a region, with prices."""

    def quotas(self, region: str) -> QuotaListing:
        """The limits that gate what is offered in a region, with usage; account-wide ones with region None.
        What the cloud does not tell is unknown (None), never zero.
        """

    def built_in_offers(self, region: str) -> OfferListing:
        """What ships with the adapter: GPU types of the region with list prices, marked `snapshot`, until
        something was read. Asks nobody; zones are those of the settings, or the region's usual ones.
        """

    def spot_signals(self, region: str) -> SignalListing:
        """What the vendor says of spot capacity in a region, for the types that it offers there; empty where
        the vendor says nothing. Asked rarely: the adapter keeps to the vendor's own limits.
        """

    def quota_requests(self, region: str) -> QuotaRequestListing:
        """The open requests for more of a region, and those decided within the last weeks, filed by whomever;
        in one reading, however many there are.
        """

    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        """File a request for more, or adopt the open one for the same quota, whatever it asks for. Never asks
        for less than the limit is: ProviderError (invalid_request). Sent once; ambiguous where unclear.
        """

    def reservations(self, region: str) -> ReservationListing:
        """Capacity that was paid for ahead in a region; what is scheduled or has just ended included."""

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        """Resolve image and subnet, so that sending the result twice sends the same bytes; create nothing."""

    def launch(self, request: LaunchRequest) -> Launched:
        """Ask for all nodes or none, idempotent on the token. Returns once accepted or refused;
        never waits for an operation. Takes only what `prepare` returned.
        """

    def find(self, request: LaunchRequest) -> Listing:
        """What the request's token made, looked up by token or name; terminated instances included while
        the cloud still shows them.
        """

    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        """The state of each, in the same order. An asynchronous refusal stands in `error`, as the
        ProviderError that a synchronous one would have been. One that cannot be read is `unknown`.
        """

    def list_instances(self, region: str, deployment: str) -> Listing:
        """All in the region that bears the tag `corral-deployment` = deployment, whatever its state."""

    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        """Ask for the end of each, with its disks, addresses and spot request. Safe to repeat; one that does
        not exist counts as done. Proof is `describe`'s business.
        """

    def close(self) -> None:
        """Let connections go."""
