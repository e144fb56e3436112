"""What every provider promises, as tests. A test module binds one by subclassing `ProviderContract` and
giving it a `bench` fixture; `Bench` is all that the suite needs to know of the cloud behind the provider.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.interface import Provider
from providers.quotas import Quota, needed
from providers.vocabulary import (
    CapacityType,
    CloudInstance,
    EndReason,
    InstanceRef,
    InstanceState,
    Launched,
    LaunchRequest,
    Offer,
    OfferKey,
)

DEPLOYMENT = "deploy-7f3a"
ALIVE = (InstanceState.PENDING, InstanceState.RUNNING)
OVER = (InstanceState.TERMINATED, InstanceState.ABSENT)
USER_DATA = "#cloud-config\nwrite_files:\n  - path: /etc/corral/agent.json\n    content: '{\"é\": 1}'\n"


class Bench(Protocol):
    """A provider and its cloud. `region` sells `instance_type` on demand and spot in two zones or more.

    `lag_seconds` is the cloud's read-after-write lag that `set_lag` may set; times are the market's own.
    """

    @property
    def provider(self) -> Provider: ...

    @property
    def region(self) -> str: ...

    @property
    def instance_type(self) -> str: ...

    @property
    def gangs_are_atomic(self) -> bool:
        """True where a gang's shortage leaves nothing behind; False where nodes are made one by one and
        the caller has to end those that came up.
        """

    def advance(self, seconds: float) -> None:
        """Let the cloud's time pass, and all that is due in it happen."""

    def exhaust(self, key: OfferKey, leave: int = 0) -> None:
        """No more than `leave` further instances of the offer can be had."""

    def restore(self, key: OfferKey) -> None:
        """As many as anyone wants again."""

    def limit_quota(self, key: OfferKey, vcpus: int) -> None:
        """The quota that counts this offer is so many vCPUs."""

    def deny_everything(self) -> None:
        """From now on the account's permissions suffice for no call that tells quotas or their usage."""

    def set_lag(self, seconds: float) -> None:
        """Instances made from now on are denied by reads for so long."""

    def drop_next_reply(self) -> None:
        """The next launch is carried out and the connection breaks before the answer."""

    def throttle(self, call: str, times: int) -> None:
        """The next calls behind `launch` or `describe` are refused as too many."""

    def preempt(self, provider_id: str) -> None:
        """The cloud reclaims a spot instance."""

    def delete_behind_our_back(self, provider_id: str) -> None:
        """Somebody deletes the instance in the vendor's console."""

    def user_data(self, provider_id: str) -> str:
        """What the instance was handed, as it would read it."""

    def unknown_id(self) -> str:
        """A well-formed id of something that never existed."""

    def live(self) -> Mapping[str, int]:
        """How many objects of each kind exist and cost money or quota: instance, disk, address ..."""


class ProviderContract:
    """Subclasses give the fixture `bench`."""

    # Offers.

    def test_every_offer_has_a_price_above_zero_or_none_at_all(self, bench: Bench) -> None:
        listing = bench.provider.offers(bench.region)
        assert listing.offers
        assert not listing.incomplete
        assert all(offer.price is None or offer.price > 0 for offer in listing.offers)
        assert any(offer.price for offer in listing.offers)

    def test_offers_are_of_this_account_and_region_and_appear_once(self, bench: Bench) -> None:
        offers = bench.provider.offers(bench.region).offers
        places = {(offer.key.provider, offer.key.account, offer.key.region) for offer in offers}
        assert places == {(bench.provider.provider, bench.provider.account, bench.region)}
        assert len({offer.key for offer in offers}) == len(offers)

    def test_offers_say_what_the_type_has(self, bench: Bench) -> None:
        for offer in bench.provider.offers(bench.region).offers:
            assert offer.type.name == offer.key.instance_type
            assert offer.type.vcpus > 0
            assert offer.type.memory_gib > 0
            assert offer.type.family
            assert offer.type.accelerator is None or offer.type.accelerator.count >= 1

    # Quotas.

    def test_quotas_appear_once_and_account_wide_ones_name_no_region(self, bench: Bench) -> None:
        offer = pick(bench)
        bench.limit_quota(offer.key, 4 * offer.type.vcpus)
        listing = bench.provider.quotas(bench.region)
        assert not listing.incomplete
        assert len({(quota.key, quota.region) for quota in listing.quotas}) == len(listing.quotas)
        for quota in listing.quotas:
            assert quota.key
            assert quota.name
            assert quota.region in (bench.region, None)
            assert {(gate.provider, gate.account) for gate in quota.gates} <= {
                (bench.provider.provider, bench.provider.account)
            }
            assert all(gate.region == quota.region for gate in quota.gates), quota

    @pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
    def test_a_quotas_headroom_shrinks_by_what_a_launch_draws_and_comes_back(
        self, bench: Bench, capacity_type: CapacityType
    ) -> None:
        offer = pick(bench, capacity_type)
        bench.limit_quota(offer.key, 4 * offer.type.vcpus)
        before = headroom(bench, offer)
        assert any(room == needed(quota.unit, offer.type, 4) for quota, room in before.values())
        refs = start(bench, request(offer, "draws", nodes=2, prepared_by=bench.provider))
        after = headroom(bench, offer)
        assert {key: room for key, (_, room) in after.items()} == {
            key: room - needed(quota.unit, offer.type, 2) for key, (quota, room) in before.items()
        }
        bench.provider.terminate(refs)
        bench.advance(120)
        ended = headroom(bench, offer)
        assert {key: room for key, (_, room) in ended.items()} == {
            key: room for key, (_, room) in before.items()
        }

    @pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
    def test_an_offer_that_is_refused_for_quota_is_gated_by_a_quota_that_shows_it(
        self, bench: Bench, capacity_type: CapacityType
    ) -> None:
        offer = pick(bench, capacity_type)
        elsewhere = other_zone(bench, offer)
        bench.limit_quota(offer.key, offer.type.vcpus)
        assert short(bench, offer, 1) == []
        start(bench, request(offer, "fits", prepared_by=bench.provider))
        error, _ = refusal(bench, request(offer, "over-quota", prepared_by=bench.provider))
        assert error.kind is ErrorKind.QUOTA
        standing = short(bench, offer, 1)
        assert standing
        assert all(quota.covers(elsewhere) for quota in standing)

    def test_no_quota_stands_against_what_can_be_launched(self, bench: Bench) -> None:
        offer = pick(bench)
        assert short(bench, offer, 2) == []
        start(bench, request(offer, "stands", nodes=2, prepared_by=bench.provider))

    def test_a_quota_that_cannot_be_read_is_unknown_and_never_zero(self, bench: Bench) -> None:
        bench.limit_quota(pick(bench).key, 64)
        bench.deny_everything()
        try:
            listing = bench.provider.quotas(bench.region)
        except ProviderError as error:
            assert error.kind is ErrorKind.AUTH  # noqa: PT017  (both answers are good)
        else:
            assert listing.incomplete
            assert {(quota.limit, quota.usage) for quota in listing.quotas} <= {(None, None)}

    # Preparing.

    def test_a_prepared_request_is_stable(self, bench: Bench) -> None:
        raw = request(pick(bench), "stable", prepared_by=None)
        once = bench.provider.prepare(raw)
        assert once.image
        assert bench.provider.prepare(raw) == once
        assert bench.provider.prepare(once) == once

    def test_preparing_creates_nothing(self, bench: Bench) -> None:
        request(pick(bench), "nothing", prepared_by=bench.provider)
        assert total(bench) == 0

    # Launching.

    def test_a_launch_makes_one_instance_that_runs_where_it_was_asked_for(self, bench: Bench) -> None:
        offer = pick(bench)
        asked = request(offer, "one", prepared_by=bench.provider)
        ref = start(bench, asked)[0]
        seen = bench.provider.describe([ref])[0]
        assert seen.state is InstanceState.RUNNING
        assert (seen.region, seen.zone, seen.instance_type) == (
            offer.key.region,
            offer.key.zone,
            offer.key.instance_type,
        )
        assert seen.error is None
        assert seen.end_reason is None
        assert seen.private_ip
        assert bench.live()["instance"] == 1

    def test_the_user_data_arrives_unchanged(self, bench: Bench) -> None:
        ref = start(bench, request(pick(bench), "data", prepared_by=bench.provider))[0]
        assert bench.user_data(ref.provider_id) == USER_DATA

    def test_a_launch_is_idempotent_on_its_token(self, bench: Bench) -> None:
        asked = request(pick(bench), "twice", prepared_by=bench.provider)
        first = bench.provider.launch(asked)
        again = bench.provider.launch(asked)
        settle(bench)
        later = bench.provider.launch(asked)
        assert ids(first) == ids(again) == ids(later)
        assert bench.live()["instance"] == 1

    def test_a_token_with_another_request_is_refused_and_makes_nothing(self, bench: Bench) -> None:
        asked = request(pick(bench), "changed", prepared_by=bench.provider)
        start(bench, asked)
        with pytest.raises(ProviderError) as caught:
            bench.provider.launch(replace(asked, user_data=USER_DATA + "# another\n"))
        assert caught.value.kind is ErrorKind.IDEMPOTENCY
        settle(bench)
        assert bench.live()["instance"] == 1

    def test_a_token_whose_instance_is_over_never_makes_another(self, bench: Bench) -> None:
        asked = request(pick(bench), "over", prepared_by=bench.provider)
        refs = start(bench, asked)
        bench.provider.terminate(refs)
        bench.advance(30)
        error = raised_by(bench, asked)
        assert error is None or (error.kind is ErrorKind.IDEMPOTENCY and error.ended)
        settle(bench)
        assert not [i for i in bench.provider.find(asked).instances if i.state in ALIVE]
        assert bench.live()["instance"] == 0

    def test_a_gang_is_whole_and_in_rank_order(self, bench: Bench) -> None:
        asked = request(pick(bench), "gang", nodes=3, prepared_by=bench.provider)
        refs = start(bench, asked)
        assert len({ref.provider_id for ref in refs}) == 3
        found = bench.provider.find(asked).instances
        assert sorted(i.node if i.node is not None else -1 for i in found) == [0, 1, 2]
        assert [by_node(found)[node] for node in range(3)] == [ref.provider_id for ref in refs]
        assert bench.live()["instance"] == 3

    def test_a_gang_short_of_one_is_refused_as_a_whole(self, bench: Bench) -> None:
        offer = pick(bench)
        bench.exhaust(offer.key, leave=1)
        asked = request(offer, "short", nodes=2, prepared_by=bench.provider)
        error, refs = refusal(bench, asked)
        assert error.kind is ErrorKind.CAPACITY
        if not bench.gangs_are_atomic:
            bench.provider.terminate(refs)
            bench.advance(120)
        assert bench.live().get("instance", 0) == 0
        assert not [i for i in bench.provider.find(asked).instances if i.state in ALIVE]

    # Refusals.

    @pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
    def test_a_stock_out_is_capacity_of_that_offer_and_not_of_another_zone(
        self, bench: Bench, capacity_type: CapacityType
    ) -> None:
        offer = pick(bench, capacity_type)
        elsewhere = other_zone(bench, offer)
        bench.exhaust(offer.key)
        error, _ = refusal(bench, request(offer, "stock", prepared_by=bench.provider))
        assert error.kind is ErrorKind.CAPACITY
        assert not error.ambiguous
        assert error.scope.covers(offer)
        assert not error.scope.covers(elsewhere)
        assert error.code
        assert error.message

    def test_a_stock_out_leaves_nothing_and_another_zone_serves(self, bench: Bench) -> None:
        offer = pick(bench)
        bench.exhaust(offer.key)
        asked = request(offer, "stock-1", prepared_by=bench.provider)
        _, refs = refusal(bench, asked)
        bench.provider.terminate(refs)
        bench.advance(120)
        assert total(bench) == 0
        start(bench, request(other_zone(bench, offer), "stock-2", prepared_by=bench.provider))
        assert bench.live()["instance"] == 1

    def test_after_a_stock_out_a_new_token_gets_what_is_back(self, bench: Bench) -> None:
        offer = pick(bench)
        bench.exhaust(offer.key)
        _, refs = refusal(bench, request(offer, "back-1", prepared_by=bench.provider))
        bench.provider.terminate(refs)
        bench.restore(offer.key)
        start(bench, request(offer, "back-2", prepared_by=bench.provider))
        assert bench.live()["instance"] == 1

    @pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
    def test_a_quota_refusal_covers_every_zone_of_the_region(
        self, bench: Bench, capacity_type: CapacityType
    ) -> None:
        offer = pick(bench, capacity_type)
        bench.limit_quota(offer.key, 0)
        error, _ = refusal(bench, request(offer, "quota", prepared_by=bench.provider))
        assert error.kind is ErrorKind.QUOTA
        assert not error.ambiguous
        assert error.scope.region == bench.region
        assert error.scope.covers(offer)
        assert error.scope.covers(other_zone(bench, offer))
        assert not error.scope.covers(replace(offer, key=replace(offer.key, region="another-region")))

    def test_a_throttled_launch_is_neither_capacity_nor_repeated(self, bench: Bench) -> None:
        offer = pick(bench)
        asked = request(offer, "many", prepared_by=bench.provider)
        bench.throttle("launch", times=1)
        with pytest.raises(ProviderError) as caught:
            bench.provider.launch(asked)
        assert caught.value.kind is ErrorKind.THROTTLED
        settle(bench)
        assert total(bench) == 0

    def test_a_throttled_read_is_tried_again_inside(self, bench: Bench) -> None:
        ref = start(bench, request(pick(bench), "reads", prepared_by=bench.provider))[0]
        bench.throttle("describe", times=1)
        assert bench.provider.describe([ref])[0].state is InstanceState.RUNNING

    # Doubt.

    def test_after_a_lost_reply_find_shows_exactly_what_was_made(self, bench: Bench) -> None:
        asked = request(pick(bench), "lost", prepared_by=bench.provider)
        bench.drop_next_reply()
        with pytest.raises(ProviderError) as caught:
            bench.provider.launch(asked)
        assert caught.value.ambiguous
        settle(bench)
        found = bench.provider.find(asked)
        assert found.complete
        assert [instance.state for instance in found.instances] == [InstanceState.RUNNING]
        assert bench.live()["instance"] == 1

    def test_after_a_lost_reply_sending_again_adopts_instead_of_making(self, bench: Bench) -> None:
        asked = request(pick(bench), "resent", prepared_by=bench.provider)
        bench.drop_next_reply()
        with pytest.raises(ProviderError):
            bench.provider.launch(asked)
        launched = bench.provider.launch(asked)
        settle(bench)
        assert ids(launched) == [i.provider_id for i in bench.provider.find(asked).instances]
        assert bench.live()["instance"] == 1

    def test_find_shows_nothing_of_a_token_that_was_never_sent(self, bench: Bench) -> None:
        start(bench, request(pick(bench), "sent", prepared_by=bench.provider))
        unsent = request(pick(bench), "unsent", prepared_by=bench.provider)
        found = bench.provider.find(unsent)
        assert found.complete
        assert found.instances == ()

    def test_an_unknown_instance_is_absent_and_does_not_hide_the_others(self, bench: Bench) -> None:
        ref = start(bench, request(pick(bench), "known", prepared_by=bench.provider))[0]
        stranger = replace(ref, provider_id=bench.unknown_id(), operation=None)
        states = [i.state for i in bench.provider.describe([stranger, ref, stranger])]
        assert states == [InstanceState.ABSENT, InstanceState.RUNNING, InstanceState.ABSENT]

    def test_describing_nothing_is_no_call(self, bench: Bench) -> None:
        assert list(bench.provider.describe([])) == []
        bench.provider.terminate([])

    def test_while_reads_lag_behind_a_new_instance_is_at_worst_absent(self, bench: Bench) -> None:
        bench.set_lag(60)
        asked = request(pick(bench), "lag", prepared_by=bench.provider)
        launched = bench.provider.launch(asked)
        refs = refs_of(asked, launched)
        early = bench.provider.describe(refs)[0]
        assert early.state in (*ALIVE, InstanceState.ABSENT)
        assert early.error is None
        assert bench.provider.find(asked).complete
        bench.advance(90)
        settle(bench)
        assert bench.provider.describe(refs)[0].state is InstanceState.RUNNING

    # Listing.

    def test_a_listing_is_complete_and_shows_our_tags(self, bench: Bench) -> None:
        asked = request(pick(bench), "tags", nodes=2, prepared_by=bench.provider)
        refs = start(bench, asked)
        listing = bench.provider.list_instances(bench.region, DEPLOYMENT)
        assert listing.complete
        assert {i.provider_id for i in listing.instances} == {ref.provider_id for ref in refs}
        for instance in listing.instances:
            assert asked.tags.items() <= instance.tags.items()
            assert instance.created_at is not None
            assert instance.name in asked.names()

    def test_another_deployments_instances_are_not_listed(self, bench: Bench) -> None:
        start(bench, request(pick(bench), "mine", prepared_by=bench.provider))
        foreign = request(pick(bench), "theirs", deployment="deploy-other", prepared_by=bench.provider)
        start(bench, foreign)
        ours = bench.provider.list_instances(bench.region, DEPLOYMENT).instances
        assert [i.tags["corral-deployment"] for i in ours] == [DEPLOYMENT]
        assert bench.provider.list_instances(bench.region, "deploy-none").instances == ()

    # Ending.

    @pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
    def test_terminate_ends_everything_and_describe_proves_it(
        self, bench: Bench, capacity_type: CapacityType
    ) -> None:
        asked = request(pick(bench, capacity_type), "end", nodes=2, prepared_by=bench.provider)
        refs = start(bench, asked)
        bench.provider.terminate(refs)
        bench.provider.terminate(refs)
        bench.advance(120)
        assert all(i.state in OVER for i in bench.provider.describe(refs))
        assert total(bench) == 0, dict(bench.live())
        bench.provider.terminate(refs)

    def test_terminate_of_one_leaves_the_others(self, bench: Bench) -> None:
        refs = start(bench, request(pick(bench), "some", nodes=2, prepared_by=bench.provider))
        stranger = replace(refs[0], provider_id=bench.unknown_id(), operation=None)
        bench.provider.terminate([stranger, refs[0]])
        bench.advance(120)
        states = [i.state for i in bench.provider.describe(refs)]
        assert states[0] in OVER
        assert states[1] is InstanceState.RUNNING

    def test_a_preemption_is_told_from_a_deletion(self, bench: Bench) -> None:
        spot = pick(bench, CapacityType.SPOT)
        taken = start(bench, request(spot, "taken", prepared_by=bench.provider))[0]
        deleted = start(bench, request(spot, "deleted", prepared_by=bench.provider))[0]
        bench.preempt(taken.provider_id)
        bench.delete_behind_our_back(deleted.provider_id)
        bench.advance(300)
        first, second = bench.provider.describe([taken, deleted])
        assert first.state not in ALIVE
        assert first.end_reason is EndReason.PREEMPTED
        assert second.state not in ALIVE
        assert second.end_reason is not EndReason.PREEMPTED

    # The account.

    def test_check_finds_nothing_wrong_with_a_sound_account(self, bench: Bench) -> None:
        results = bench.provider.check()
        assert results
        assert [result for result in results if not result.ok] == []
        assert total(bench) == 0


def pick(bench: Bench, capacity_type: CapacityType = CapacityType.ON_DEMAND) -> Offer:
    """The first zone's offer of the bench's instance type."""
    return _zones(bench, capacity_type)[0]


def other_zone(bench: Bench, offer: Offer) -> Offer:
    """The same type and capacity type in another zone of the region."""
    return next(o for o in _zones(bench, offer.key.capacity_type) if o.key.zone != offer.key.zone)


def _zones(bench: Bench, capacity_type: CapacityType) -> list[Offer]:
    offers = bench.provider.offers(bench.region).offers
    wanted = (bench.instance_type, capacity_type)
    mine = [offer for offer in offers if (offer.key.instance_type, offer.key.capacity_type) == wanted]
    assert mine, f"no offer of {wanted} in {bench.region}"
    return sorted(mine, key=lambda offer: offer.key.zone)


def headroom(bench: Bench, offer: Offer) -> dict[tuple[str, str | None], tuple[Quota, float]]:
    """The quotas that the offer draws on by key and region, with what is left of those that are known."""
    return {
        (quota.key, quota.region): (quota, quota.limit - quota.usage)
        for quota in bench.provider.quotas(bench.region).quotas
        if quota.covers(offer) and quota.limit is not None and quota.usage is not None
    }


def short(bench: Bench, offer: Offer, nodes: int) -> list[Quota]:
    """The quotas that leave no room for so many instances of an offer."""
    found = headroom(bench, offer).values()
    return [quota for quota, room in found if room < needed(quota.unit, offer.type, nodes)]


def request(
    offer: Offer, name: str, *, nodes: int = 1, deployment: str = DEPLOYMENT, prepared_by: Provider | None
) -> LaunchRequest:
    """A launch request whose token follows from `name`, prepared if a provider is given."""
    token = hashlib.sha256(name.encode()).hexdigest()[:32]
    tags = {
        "corral-deployment": deployment,
        "corral-job": f"job-{name}",
        "corral-attempt": f"attempt-{name}",
        "corral-token": token,
    }
    raw = LaunchRequest(token, offer.key, nodes, USER_DATA, tags, disk_gib=50)
    return prepared_by.prepare(raw) if prepared_by else raw


def refs_of(asked: LaunchRequest, launched: Launched) -> list[InstanceRef]:
    """What the service would keep of a launch."""
    key = asked.offer
    return [
        InstanceRef(key.region, key.zone, i.provider_id, launched.operation, key.capacity_type)
        for i in launched.instances
    ]


def ids(launched: Launched) -> list[str]:
    return [instance.provider_id for instance in launched.instances]


def by_node(instances: Sequence[CloudInstance]) -> dict[int | None, str]:
    return {instance.node: instance.provider_id for instance in instances}


def settle(bench: Bench) -> None:
    """Long enough for any operation and any boot."""
    bench.advance(240)


def start(bench: Bench, asked: LaunchRequest) -> list[InstanceRef]:
    """Launch, and wait until all nodes run."""
    launched = bench.provider.launch(asked)
    assert len(launched.instances) == asked.nodes
    settle(bench)
    refs = refs_of(asked, launched)
    seen = bench.provider.describe(refs)
    assert [i.state for i in seen] == [InstanceState.RUNNING] * asked.nodes, [str(i.error) for i in seen]
    return refs


def refusal(bench: Bench, asked: LaunchRequest) -> tuple[ProviderError, list[InstanceRef]]:
    """The error of a launch, whether it came at once or through `describe`, and what is to be ended."""
    try:
        launched = bench.provider.launch(asked)
    except ProviderError as error:
        return error, []
    settle(bench)
    refs = refs_of(asked, launched)
    errors = [i.error for i in bench.provider.describe(refs) if i.error is not None]
    assert errors, "the launch was neither refused at once nor later"
    assert isinstance(errors[0], ProviderError)
    return errors[0], refs


def raised_by(bench: Bench, asked: LaunchRequest) -> ProviderError | None:
    """What a launch raises; None if it is accepted."""
    try:
        bench.provider.launch(asked)
    except ProviderError as error:
        return error
    return None


def total(bench: Bench) -> int:
    return sum(bench.live().values())
