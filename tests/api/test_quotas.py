"""GET /v1/quotas: limits, usage, what is free, in the cloud's unit and in GPUs."""

from __future__ import annotations

from sqlmodel import Session

from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey, Scope
from service.market.model import OfferRow
from service.market.offers import to_values
from service.quotas.rows import to_row
from tests.api.service import Service


def _sold(service: Service) -> None:
    """One size with H100 and one without a GPU, in one family."""

    def write(session: Session) -> None:
        for type_ in (
            InstanceType("gpu-8", "P", 96, 1024, Accelerator("H100", 8, 80)),
            InstanceType("gpu-1", "P", 16, 128, Accelerator("H100", 1, 80)),
            InstanceType("cpu", "Standard", 8, 32),
        ):
            key = OfferKey("aws", "main", "us-east-1", "use1-az4", type_.name, CapacityType.SPOT)
            session.add(OfferRow(**to_values(Offer(key, type_, 1.0), service.now)))

    service.database.write(write)


def _read(service: Service, *quotas: Quota) -> None:
    def write(session: Session) -> None:
        for quota in quotas:
            session.add(to_row("aws", "main", quota))

    service.database.write(write)


def _quota(service: Service, family: str, limit: float | None, usage: float | None) -> Quota:
    gates = (Scope(region="us-east-1", family=family, capacity_type=CapacityType.SPOT),)
    return Quota(
        f"L-{family}", f"All {family}", "us-east-1", QuotaUnit.VCPU, limit, usage, gates, service.now
    )


def test_what_is_free_is_shown_in_the_clouds_unit_and_in_gpus(any_service: Service) -> None:
    _sold(any_service)
    _read(any_service, _quota(any_service, "P", 208, 0), _quota(any_service, "Standard", None, 4))
    known, unknown = any_service.get("/v1/quotas").json()["items"]
    assert (known["state"], known["limit"], known["free"], known["free_gpus"]) == ("known", 208, 208, 16)
    assert (unknown["state"], unknown["free"], unknown["free_gpus"]) == ("unknown", None, None)


def test_quotas_are_filtered_by_gpu_and_paged(any_service: Service) -> None:
    _sold(any_service)
    _read(any_service, _quota(any_service, "P", 0, 0), _quota(any_service, "Standard", 5, 4))
    (only,) = any_service.get("/v1/quotas?gpu=h100").json()["items"]
    assert (only["key"], only["state"], only["free_gpus"]) == ("L-P", "zero", 0)
    first = any_service.get("/v1/quotas?limit=1").json()
    second = any_service.get(f"/v1/quotas?limit=1&cursor={first['next_cursor']}").json()
    assert [page["items"][0]["key"] for page in (first, second)] == ["L-P", "L-Standard"]
    assert second["next_cursor"] is None
