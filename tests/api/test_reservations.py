"""GET /v1/reservations, and what offers say of reserved capacity, built-in prices and spot signals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlmodel import Session

from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import CapacityType, Offer, OfferKey
from service.market.model import OfferRow, SignalRow
from service.market.offers import to_values
from service.reservations.reader import write
from service.reservations.rows import to_row
from tests.api.service import H100, Service


def _reserve(service: Service, name: str, provider: str = "aws", **fields: Any) -> None:
    values: dict[str, Any] = {
        "kind": ReservationKind.CAPACITY_RESERVATION,
        "region": "us-east-1",
        "zone": "use1-az1",
        "type": H100,
        "state": ReservationState.ACTIVE,
        "total": 4,
        "used": 1,
    }
    made = Reservation(id=name, **(values | fields))
    service.database.write(
        lambda session: write(session, to_row(provider, "main", made, service.now), service.now)
    )


def test_a_reservation_is_shown_with_its_counts_and_dates(any_service: Service) -> None:
    ends_at = any_service.now + timedelta(days=2)
    _reserve(any_service, "cr-1", kind=ReservationKind.CAPACITY_BLOCK, ends_at=ends_at, price=31.5)
    (item,) = any_service.get("/v1/reservations").json()["items"]
    assert (item["id"], item["kind"], item["state"]) == ("cr-1", "capacity_block", "active")
    assert (item["total"], item["used"], item["in_flight"], item["free"]) == (4, 1, 0, 3)
    assert (item["gpu"], item["gpu_count"], item["price_usd_hour"]) == ("H100", 8, 31.5)
    assert item["leave_at"].startswith(f"{ends_at - timedelta(minutes=45):%Y-%m-%dT%H:%M}")


def test_what_is_unknown_is_null_and_never_zero(any_service: Service) -> None:
    _reserve(any_service, "cr-1", total=None, used=None)
    (item,) = any_service.get("/v1/reservations").json()["items"]
    assert (item["total"], item["used"], item["free"], item["price_usd_hour"]) == (None, None, None, None)


def test_reservations_are_paged_and_filtered(any_service: Service) -> None:
    for name in ("cr-1", "cr-2", "cr-3"):
        _reserve(any_service, name)
    _reserve(any_service, "cr-4", state=ReservationState.SCHEDULED)
    first = any_service.get("/v1/reservations?limit=2").json()
    rest = any_service.get(f"/v1/reservations?limit=2&cursor={first['next_cursor']}").json()
    assert [item["id"] for page in (first, rest) for item in page["items"]] == [
        "cr-1",
        "cr-2",
        "cr-3",
        "cr-4",
    ]
    assert rest["next_cursor"] is None
    (only,) = any_service.get("/v1/reservations?state=scheduled").json()["items"]
    assert only["id"] == "cr-4"
    assert any_service.get("/v1/reservations?kind=nonsense").status_code == 422
    assert any_service.get("/v1/reservations?cursor=nonsense").status_code == 422


def test_a_reserved_offer_names_its_reservation_and_is_blocked_when_full(service: Service) -> None:
    _reserve(service, "cr-1", used=4)
    (item,) = service.get("/v1/offers?capacity_type=reserved").json()["items"]
    assert (item["reservation"], item["price_usd_hour"]) == ("cr-1", None)
    assert item["block"]["kind"] == "reservation"
    assert "0 of 4 free" in item["block"]["message"]


def test_what_is_scheduled_or_over_is_no_offer(service: Service) -> None:
    _reserve(service, "cr-1", state=ReservationState.SCHEDULED)
    _reserve(service, "cr-2", state=ReservationState.ENDED)
    _reserve(service, "cr-3", state=ReservationState.UNKNOWN)
    assert service.get("/v1/offers").json()["items"] == []


def test_an_offer_that_was_never_read_is_marked_and_blocked_in_the_plan_too(service: Service) -> None:
    key = OfferKey("aws", "main", "us-east-1", "use1-az1", H100.name, CapacityType.ON_DEMAND)
    built_in = Offer(key, H100, 50.0, price_source="snapshot", built_in=True)
    service.database.write(lambda session: session.add(OfferRow(**to_values(built_in, service.now))))
    (item,) = service.get("/v1/offers").json()["items"]
    assert (item["price_source"], item["built_in"], item["block"]["kind"]) == ("snapshot", True, "unread")
    spec = {"name": "train", "run": "python train.py", "resources": {"gpu": "H100:8"}}
    plan = service.post("/v1/jobs:plan", spec | {"spot": "never"})
    assert plan.status_code == 200
    assert "unread" in plan.text


def test_what_the_vendor_says_of_spot_capacity_stands_at_the_offer(service: Service) -> None:
    service.offer(capacity_type=CapacityType.SPOT)

    def said(session: Session) -> None:
        place = ("aws", "main", "us-east-1", "*", H100.name)
        names = ("provider", "account", "region", "zone", "instance_type")
        values: dict[str, Any] = dict(zip(names, place, strict=True))
        session.add(SignalRow(**values, source="placement_score", obtainability=0.9, read_at=service.now))

    service.database.write(said)
    (item,) = service.get("/v1/offers").json()["items"]
    (signal,) = item["signals"]
    assert (signal["source"], signal["zone"], signal["obtainability"]) == ("placement_score", None, 0.9)
    assert signal["eviction_rate"] is None


def test_an_open_reservation_is_an_offer_where_a_launch_may_name_it(service: Service) -> None:
    _reserve(service, "cr-1", targeted=False)
    _reserve(service, "zone/res-1", "gcp", targeted=False)
    _reserve(service, "zone/res-2", "gcp")
    offered = service.get("/v1/offers").json()["items"]
    assert sorted(item["reservation"] for item in offered) == ["cr-1", "zone/res-2"]
    assert len(service.get("/v1/reservations").json()["items"]) == 3
