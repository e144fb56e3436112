"""What every provider promises of reservations, as tests to mix into a subclass of `ProviderContract`.

The subclass's `bench` fixture gives a `ReservationBench`: what `Bench` gives, and reservations to make.
"""

from __future__ import annotations

from typing import Protocol

from providers.errors import ErrorKind
from providers.interface import Provider
from providers.reservations import Reservation, ReservationState
from providers.vocabulary import CapacityType, LaunchRequest, Offer, OfferKey
from tests.providers import contract
from tests.providers.contract import Bench, refs_of, refusal, request, settle, start, total


class ReservationBench(Bench, Protocol):
    """A bench whose account has reservations. A reservation draws on no stock that `exhaust` empties."""

    def reserve(self, slots: int) -> str:
        """An active reservation of so many `instance_type` in one zone of the region, for launches that name
        it alone; its id as a launch names it.
        """

    def end_reservation(self, reservation: str) -> None:
        """Its time is over, or it was cancelled."""


class ReservationContract:
    """Subclasses give the fixture `bench`."""

    def test_a_reservation_is_listed_with_its_counts(self, bench: ReservationBench) -> None:
        named = bench.reserve(2)
        found = _listed(bench, named)
        assert found.state is ReservationState.ACTIVE
        assert (found.total, found.used, found.free) == (2, 0, 2)
        assert (found.region, found.type.name) == (bench.region, bench.instance_type)
        assert found.targeted
        assert found.type.vcpus > 0

    def test_reservations_appear_once_and_are_no_offers_by_themselves(self, bench: ReservationBench) -> None:
        bench.reserve(1)
        bench.reserve(1)
        listing = bench.provider.reservations(bench.region)
        assert not listing.incomplete
        assert len({one.id for one in listing.reservations}) == len(listing.reservations) == 2
        sold = bench.provider.offers(bench.region).offers
        assert not [offer for offer in sold if offer.key.capacity_type is CapacityType.RESERVED]

    def test_a_launch_that_names_a_reservation_takes_a_slot_of_it(self, bench: ReservationBench) -> None:
        named = bench.reserve(2)
        asked = into(bench, named, "first")
        (ref,) = start(bench, asked)
        assert _listed(bench, named).used == 1
        (shown,) = bench.provider.describe([ref])
        assert shown.capacity_type in (CapacityType.RESERVED, None)
        assert shown.zone == asked.offer.zone

    def test_a_full_reservation_refuses_and_speaks_of_itself_alone(self, bench: ReservationBench) -> None:
        named, other = bench.reserve(1), bench.reserve(1)
        start(bench, into(bench, named, "first"))
        error, left = refusal(bench, into(bench, named, "second"))
        bench.provider.terminate(left)
        assert error.kind is ErrorKind.CAPACITY
        assert not error.ambiguous
        assert error.scope.reservation == named
        assert error.scope.covers(reserved(bench, named))
        assert not error.scope.covers(reserved(bench, other))
        assert not error.scope.covers(contract.pick(bench))

    def test_a_gang_that_is_larger_than_the_reservation_leaves_nothing_running(
        self, bench: ReservationBench
    ) -> None:
        named = bench.reserve(1)
        before = total(bench)
        error, left = refusal(bench, into(bench, named, "gang", nodes=2))
        bench.provider.terminate(left)
        settle(bench)
        assert error.kind is ErrorKind.CAPACITY
        assert total(bench) == before
        assert _listed(bench, named).used == 0

    def test_a_slot_is_free_again_when_its_instance_is_gone(self, bench: ReservationBench) -> None:
        named = bench.reserve(1)
        refs = start(bench, into(bench, named, "first"))
        bench.provider.terminate(refs)
        settle(bench)
        assert _listed(bench, named).free == 1
        start(bench, into(bench, named, "second"))
        assert _listed(bench, named).free == 0

    def test_a_launch_that_names_none_leaves_the_reservation_alone(self, bench: ReservationBench) -> None:
        named = bench.reserve(1)
        offers = bench.provider.offers(bench.region).offers
        zone = _listed(bench, named).zone
        (plain,) = [
            offer
            for offer in offers
            if offer.key
            == OfferKey(
                bench.provider.provider,
                bench.provider.account,
                bench.region,
                zone,
                bench.instance_type,
                CapacityType.ON_DEMAND,
            )
        ]
        start(bench, request(plain, "plain", prepared_by=bench.provider))
        assert _listed(bench, named).used == 0

    def test_the_same_launch_sent_again_takes_no_second_slot(self, bench: ReservationBench) -> None:
        named = bench.reserve(2)
        asked = into(bench, named, "twice")
        first = bench.provider.launch(asked)
        again = bench.provider.launch(asked)
        settle(bench)
        assert [one.provider_id for one in again.instances] == [one.provider_id for one in first.instances]
        assert _listed(bench, named).used == 1
        assert len(refs_of(asked, first)) == 1

    def test_what_has_ended_is_not_shown_as_usable(self, bench: ReservationBench) -> None:
        named = bench.reserve(1)
        asked = into(bench, named, "late")
        bench.end_reservation(named)
        shown = [one for one in bench.provider.reservations(bench.region).reservations if one.id == named]
        assert not [
            one for one in shown if one.state in (ReservationState.ACTIVE, ReservationState.SCHEDULED)
        ]
        error, left = refusal(bench, asked)
        bench.provider.terminate(left)
        assert error.kind in (ErrorKind.CAPACITY, ErrorKind.INVALID_REQUEST, ErrorKind.NOT_FOUND)
        assert not error.scope.covers(contract.pick(bench))


def reserved(bench: ReservationBench, named: str) -> Offer:
    """The offer that the service makes of a reservation."""
    provider: Provider = bench.provider
    one = _listed(bench, named)
    key = OfferKey(
        provider.provider,
        provider.account,
        one.region,
        one.zone,
        one.type.name,
        CapacityType.RESERVED,
        one.id,
    )
    return Offer(key, one.type, one.price)


def into(bench: ReservationBench, named: str, name: str, *, nodes: int = 1) -> LaunchRequest:
    """A prepared launch into a reservation."""
    return request(reserved(bench, named), name, nodes=nodes, prepared_by=bench.provider)


def _listed(bench: ReservationBench, named: str) -> Reservation:
    listing = bench.provider.reservations(bench.region)
    (found,) = [one for one in listing.reservations if one.id == named]
    return found
