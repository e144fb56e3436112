"""`AwsProvider`: an AWS account behind the Provider interface. One EC2 call does one thing; the files beside
this one say how.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from clock import Clock
from providers.aws import (
    built_in,
    leftovers,
    placement_groups,
    placement_scores,
    quota_requests,
    reservations,
)
from providers.aws.api import Api
from providers.aws.cache import Cache
from providers.aws.catalogue import Catalogue
from providers.aws.check import check
from providers.aws.instances import (
    by_region,
    denied,
    in_rank_order,
    parse,
    read_by_id,
    read_instances,
    unreadable,
)
from providers.aws.launch import makes_group, refuse_unsendable, run_instances_parameters, subject
from providers.aws.preparation import Preparation
from providers.aws.quotas import Quotas
from providers.aws.terminate import terminate
from providers.aws.zone_hints import hinted
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
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
    Scope,
)

# For minutes after RunInstances reads may deny the instance. [EC2 developer guide, "Eventual consistency"]
CONSISTENCY_WINDOW = timedelta(minutes=10)
DEPLOYMENT_TAG = "corral-deployment"


class AwsProvider:
    """One account. Nothing is imported, read or connected before the first call needs it.

    environment: where credentials with a prefix are read. chance: spreads repeated reads.
    """

    def __init__(
        self,
        config: AccountConfig,
        clock: Clock,
        *,
        environment: Mapping[str, str] = os.environ,
        chance: random.Random | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._api = Api(config, clock, environment=environment, chance=chance)
        self._catalogue = Catalogue(self._api, config, clock)
        self._quotas = Quotas(self._api, self._catalogue, clock)
        self._signals: Cache[str, SignalListing] = Cache(clock, placement_scores.SECONDS)
        self._preparation = Preparation(self._api, self._catalogue, config, clock)

    @property
    def provider(self) -> str:
        return self._config.provider

    @property
    def account(self) -> str:
        return self._config.name

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self._config.regions)

    @property
    def consistency_window(self) -> timedelta:
        return CONSISTENCY_WINDOW

    @property
    def reclaims_powered_off(self) -> bool:
        """Launches set the shutdown behaviour `terminate`."""
        return True

    def check(self) -> Sequence[CheckResult]:
        return check(self, self._api, self._catalogue, self._config)

    def offers(self, region: str) -> OfferListing:
        return self._catalogue.offers(region)

    def quotas(self, region: str) -> QuotaListing:
        return self._quotas.read(region)

    def built_in_offers(self, region: str) -> OfferListing:
        return OfferListing(tuple(built_in.offers(self._config, region)))

    def spot_signals(self, region: str) -> SignalListing:
        return self._signals.get(region, lambda: self._catalogue.signals(region))

    def quota_requests(self, region: str) -> QuotaRequestListing:
        return quota_requests.read_requests(self._api, region, self._clock)

    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        return quota_requests.file(self._api, increase)

    def reservations(self, region: str) -> ReservationListing:
        found = [
            raw for raw in reservations.read_reservations(self._api, region) if reservations.is_ours(raw)
        ]
        types = self._catalogue.types(region, (raw["InstanceType"] for raw in found))
        zone_of, prices = self._catalogue.network(region).id_of, self._catalogue.on_demand.of(region).by_type
        return ReservationListing(
            tuple(
                reservations.parse(raw, region, types[raw["InstanceType"]], zone_of, prices)
                for raw in found
                if raw["InstanceType"] in types
            )
        )

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        return self._preparation.prepare(request)

    def launch(self, request: LaunchRequest) -> Launched:
        refuse_unsendable(request)
        region = request.offer.region
        answer = self._run_instances(request)
        made = in_rank_order(answer.get("Instances", ()))
        if len(made) != request.nodes:
            message = f"the answer shows {len(made)} instances instead of {request.nodes}"
            raise ProviderError(ErrorKind.UNKNOWN, message, scope=subject(request), ambiguous=True)
        zone = request.offer.zone  # not looked up: nothing may fail any more
        return Launched(tuple(parse(raw, region, self._api.account, lambda _: zone) for raw in made))

    def find(self, request: LaunchRequest) -> Listing:
        region = request.offer.region
        mine = [{"Name": "client-token", "Values": [request.token]}]
        found = read_instances(self._api, region, Filters=mine, MaxResults=1000)
        return Listing(tuple(self._shown(raw, region) for raw in found))

    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        answers: dict[InstanceRef, CloudInstance] = {}
        for region, here in by_region(refs).items():
            answers.update(self._describe_in(region, here))
        return [answers[ref] for ref in refs]

    def list_instances(self, region: str, deployment: str) -> Listing:
        ours = [{"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [deployment]}]
        found = read_instances(self._api, region, Filters=ours, MaxResults=1000)
        shown = [self._shown(raw, region) for raw in found]
        groups = placement_groups.leftovers(self._api, region, DEPLOYMENT_TAG, deployment)
        left = leftovers.listed(self._api, region, DEPLOYMENT_TAG, deployment)
        return Listing((*placement_groups.with_leftovers(region, found, shown, groups), *left))

    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        for region, here in by_region(refs).items():
            terminate(self._api, region, here)

    def close(self) -> None:
        self._api.close()

    def _run_instances(self, request: LaunchRequest) -> dict[str, Any]:
        """One sending, in a placement group of its own where one is wanted. A plain refusal leaves none."""
        about, region = subject(request), request.offer.region
        parameters = run_instances_parameters(request)
        grouped = makes_group(request)
        if grouped:
            placement_groups.create(self._api, request, about, self._clock.now())
        try:
            return self._api.write("ec2", region, "run_instances", about, launches=True, **parameters)
        except ProviderError as error:
            error.available = () if grouped else self._hinted(error, request)
            if grouped and not error.ambiguous:
                placement_groups.delete_quietly(self._api, region, request.token)
            raise

    def _hinted(self, error: ProviderError, request: LaunchRequest) -> tuple[Scope, ...]:
        """Where EC2 says that it has more; nothing where the zones cannot be told."""
        try:
            network = self._catalogue.network(request.offer.region)
        except ProviderError:
            return ()
        return hinted(error, subject(request), network.id_of)

    def _describe_in(self, region: str, refs: Sequence[InstanceRef]) -> dict[InstanceRef, CloudInstance]:
        left = [ref for ref in refs if leftovers.is_one(ref.provider_id)]
        try:
            found = read_by_id(self._api, region, [ref.provider_id for ref in refs if ref not in left])
            answers = {
                ref: self._shown(found[ref.provider_id], region) if ref.provider_id in found else denied(ref)
                for ref in refs
            }
            answers.update((ref, leftovers.describe(self._api, ref)) for ref in left)
            return answers
        except ProviderError as error:
            return {ref: unreadable(ref, error) for ref in refs}

    def _shown(self, raw: Mapping[str, Any], region: str) -> CloudInstance:
        return parse(raw, region, self._api.account, lambda name: self._catalogue.network(region).id_of(name))
