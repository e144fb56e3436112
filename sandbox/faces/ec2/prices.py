"""Prices: EC2's spot history and the Pricing API's product list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.catalogue import InstanceType, Zone
from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import Getter, filtered, page

_DESCRIPTIONS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_PRICE_PAGE = 100

_SPOT_FILTERS: dict[str, Getter] = {
    "availability-zone": lambda row: [row["AvailabilityZone"]],
    "availability-zone-id": lambda row: [row["AvailabilityZoneId"]],
    "instance-type": lambda row: [row["InstanceType"]],
    "product-description": lambda row: [row["ProductDescription"]],
}


def describe_spot_price_history(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The price in force in each pool, whether it has capacity or not. The last page's token is an empty
    text, as EC2's is.
    """
    dry_run(params)
    zones = list(context.zones)
    named = params.get("AvailabilityZone") or params.get("AvailabilityZoneId")
    if named:
        zones = [context.zone(named)]
    wanted = params.get("InstanceTypes", [])
    descriptions = params.get("ProductDescriptions", [])
    rows = []
    if not descriptions or set(_DESCRIPTIONS) & set(descriptions):
        sizes = [size for size in context.table.types.values() if not wanted or size.name in wanted]
        rows = [row for zone in zones for size in sizes for row in _spot_row(context, zone, size)]
    shown, token = page(filtered(rows, params.get("Filters", []), _SPOT_FILTERS), params, "spot-prices")
    return {"SpotPriceHistory": shown, "NextToken": token or ""}


def _spot_row(context: Context, zone: Zone, size: InstanceType) -> Iterator[dict[str, Any]]:
    price = context.world.price("aws", context.region, zone.key, size.name, "spot")
    if price is not None:
        yield {
            "AvailabilityZone": zone.name,
            "AvailabilityZoneId": zone.key,
            "InstanceType": size.name,
            "ProductDescription": _DESCRIPTIONS[0],
            "SpotPrice": f"{price:.6f}",
            "Timestamp": context.world.now(),
        }


def get_products(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """On-demand prices of Linux on shared tenancy; each product is a JSON text. Any attribute filters."""
    if params["ServiceCode"] != "AmazonEC2":
        raise AwsError("InvalidParameterException", f"service {params['ServiceCode']} is not served here")
    products = [row for region in context.table.regions for row in _products(context, region)]
    for rule in params.get("Filters", []):
        name, value = rule["Field"], rule["Value"]
        products = [
            row for row in products if row["product"]["attributes"].get(name) == value or _is(row, rule)
        ]
    shown, token = page(products, params, "products", most=_PRICE_PAGE)
    answer = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(row) for row in shown]}
    return answer | ({"NextToken": token} if token else {})


def _is(row: Mapping[str, Any], rule: Mapping[str, str]) -> bool:
    """`productFamily` stands beside the attributes."""
    return rule["Field"] == "productFamily" and row["product"]["productFamily"] == rule["Value"]


def _products(context: Context, region: str) -> Iterator[dict[str, Any]]:
    for size in context.table.types.values():
        zone = next((z for z in context.table.zones_of(region) if context.table.sold(z.key, size.name)), None)
        if zone is None:
            continue
        price = context.world.price("aws", region, zone.key, size.name, "on_demand")
        if price is not None:
            yield _product(region, size, price)


def _product(region: str, size: InstanceType, price: float) -> dict[str, Any]:
    sku = f"{size.name}.{region}".upper().replace("-", "").replace(".", "")
    attributes = {
        "servicecode": "AmazonEC2",
        "regionCode": region,
        "instanceType": size.name,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "vcpu": str(size.vcpus),
        "memory": f"{size.memory_mib / 1024:g} GiB",
    }
    if size.gpu is not None:
        attributes["gpu"] = str(size.gpu.count)
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${price} per On Demand Linux {size.name} Instance Hour",
        "pricePerUnit": {"USD": f"{price:.10f}"},
    }
    term = {"sku": sku, "priceDimensions": {f"{sku}.HRS": dimension}, "termAttributes": {}}
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.OD": term}},
        "version": "20260301000000",
    }
