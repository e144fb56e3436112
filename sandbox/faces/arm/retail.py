"""The Retail Prices API: prices of the world beside rows that a reader has to leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import InstanceType, catalogue
from sandbox.faces.arm.call import Call
from sandbox.faces.arm.odata import matches
from sandbox.faces.arm.state import Face
from sandbox.vm import CapacityType

PAGE = 100
_SINCE = "2024-01-01T00:00:00Z"


def prices(face: Face, call: Call) -> Response:
    """Rows by page; the link to the next one has the port in it, as the real one has."""
    wanted = call.query.get("$filter", "")
    rows = [row for row in _rows(face) if matches(wanted, [_fields(row)])]
    start = int(call.query.get("$skip") or 0)
    more = None
    if start + PAGE < len(rows):
        more = f"{call.base}{call.url}?{urlencode({**call.query, '$skip': str(start + PAGE)})}"
    page = rows[start : start + PAGE]
    return JSONResponse(
        {
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": page,
            "NextPageLink": more,
            "Count": len(page),
        }
    )


def _fields(row: dict[str, Any]) -> dict[str, str]:
    """Filters call a row's `type` `priceType`."""
    fields = {name.lower(): str(value) for name, value in row.items()}
    return {**fields, "pricetype": str(row["type"])}


def _rows(face: Face) -> Iterator[dict[str, Any]]:
    table = catalogue("azure")
    for region in table.regions:
        for size in table.types.values():
            kinds: tuple[CapacityType, ...] = ("on_demand", "spot")
            for kind in kinds:
                price = _price(face, region, size, kind)
                if price is not None:
                    yield from _of(region, size, kind, price)


def _price(face: Face, region: str, size: InstanceType, kind: CapacityType) -> float | None:
    """The region's price: the same in each of its zones."""
    table = catalogue("azure")
    keys = [region, *(zone.key for zone in table.zones_of(region))]
    sold = next((key for key in keys if table.sold(key, size.name)), None)
    return None if sold is None else face.world.price("azure", region, sold, size.name, kind)


def _of(region: str, size: InstanceType, kind: CapacityType, price: float) -> Iterator[dict[str, Any]]:
    short = size.name.removeprefix("Standard_").replace("_", " ")
    product = f"Virtual Machines {size.family}"
    if kind == "spot":
        yield _row(region, size, price, f"{short} Spot", product)
        yield _row(region, size, price * 1.4, f"{short} Spot", f"{product} Windows")
        yield _row(region, size, price * 0.9, f"{short} Low Priority", product)
        return
    yield _row(region, size, price, short, product)
    yield _row(region, size, price * 1.6, short, f"{product} Windows")
    yield {
        **_row(region, size, price * 5000, short, product),
        "type": "Reservation",
        "reservationTerm": "1 Year",
    }


def _row(region: str, size: InstanceType, price: float, sku: str, product: str) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": round(price, 6),
        "unitPrice": round(price, 6),
        "armRegionName": region,
        "location": region,
        "effectiveStartDate": _SINCE,
        "meterId": "",
        "meterName": sku,
        "productId": "",
        "skuId": "",
        "productName": product,
        "skuName": sku,
        "serviceName": "Virtual Machines",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size.name,
    }
