"""What EC2 and the Pricing API answer: moto's copy of the real lists, in the form of botocore's models."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from sandbox.faces.ec2.protocol import operation, read_json, read_query, service, write_json, write_query

REGIONS = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1", "eu-west-1", "eu-west-2",
    "eu-west-3", "eu-central-1", "eu-north-1", "ap-south-1", "ap-northeast-1", "ap-northeast-2",
    "ap-northeast-3", "ap-southeast-1", "ap-southeast-2",
)  # fmt: skip
_AT = datetime(2026, 6, 1, tzinfo=UTC)
_RESERVED_TERMS = 12  # 1 or 3 years, three ways to pay, two classes


class Ec2:
    """thin: one zone and one type, for a first call that costs what imports cost."""

    def __init__(self, *, thin: bool) -> None:
        self._thin = thin

    def answer(self, service_name: str, region: str, target: str, body: bytes) -> bytes:
        """The answer to a request of the service named in its signature."""
        if service_name == "pricing":
            model = operation(service("pricing"), target.rpartition(".")[2])
            return write_json(model, self._products(read_json(model, body))).encode()
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        model = operation(service("ec2"), form["Action"])
        params = read_query(model, form)
        rows = {
            "DescribeAvailabilityZones": ("AvailabilityZones", self._zones),
            "DescribeSubnets": ("Subnets", self._subnets),
            "DescribeInstanceTypes": ("InstanceTypes", self._types),
            "DescribeInstanceTypeOfferings": ("InstanceTypeOfferings", self._offerings),
            "DescribeSpotPriceHistory": ("SpotPriceHistory", self._spot_prices),
        }
        key, listed = rows[form["Action"]]
        return write_query(model, _page(key, listed(region, params), params), "bench").encode()

    def _offered(self, region: str) -> list[tuple[str, str]]:
        """(type, zone id) of all that exists in the region."""
        every = offered(region)
        first = min(zone for _, zone in every)
        return [one for one in every if one == ("g4dn.xlarge", first)] if self._thin else every

    def _zones(self, region: str, _params: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "ZoneId": zone,
                "ZoneName": f"{region}{chr(97 + index)}",
                "RegionName": region,
                "State": "available",
            }
            for index, zone in enumerate(sorted({zone for _, zone in self._offered(region)}))
        ]

    def _subnets(self, region: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "SubnetId": f"subnet-{zone['ZoneId']}",
                "VpcId": "vpc-1",
                "AvailabilityZone": zone["ZoneName"],
                "AvailabilityZoneId": zone["ZoneId"],
                "AvailableIpAddressCount": 4091,
                "CidrBlock": "172.31.0.0/20",
                "DefaultForAz": True,
                "State": "available",
            }
            for zone in self._zones(region, params)
        ]

    def _types(self, region: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        here = {name for name, _ in self._offered(region)}
        return [raw for name, raw in types().items() if name in here and _wanted(name, params)]

    def _offerings(self, region: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"InstanceType": name, "LocationType": "availability-zone-id", "Location": zone}
            for name, zone in self._offered(region)
            if _wanted(name, params)
        ]

    def _spot_prices(self, region: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        names = {zone["ZoneId"]: zone["ZoneName"] for zone in self._zones(region, params)}
        return [
            {
                "AvailabilityZone": names[zone],
                "AvailabilityZoneId": zone,
                "InstanceType": name,
                "ProductDescription": description,
                "SpotPrice": "1.234500",
                "Timestamp": _AT,
            }
            for name, zone in self._offered(region)
            for description in params["ProductDescriptions"]
            if name in params["InstanceTypes"]
        ]

    def _products(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What fits the filters on region and type; the others fit all that is listed here."""
        rules = {rule["Field"]: rule["Value"] for rule in params["Filters"]}
        region = rules["regionCode"]
        names = sorted({name for name, _ in self._offered(region)})
        products = [
            _product(region, name)
            for name in names
            if not types()[name]["BareMetal"] and rules.get("instanceType", name) == name
        ]
        return {"FormatVersion": "aws_v1", **_page("PriceList", products, params)}


@cache
def types() -> dict[str, dict[str, Any]]:
    """Every instance type by name, as DescribeInstanceTypes answered it."""
    found: dict[str, dict[str, Any]] = json.loads(_read("instance_types.json.gz"))
    return found


@cache
def offered(region: str) -> list[tuple[str, str]]:
    """(type, zone id) of what a region has."""
    rows = json.loads(_read("instance_type_offerings", "availability-zone-id", f"{region}.json.gz"))
    return [(row["InstanceType"], row["Location"]) for row in rows if row["InstanceType"] in types()]


def _read(*path: str) -> bytes:
    folder = files("moto.ec2").joinpath("resources")
    for name in path:
        folder = folder.joinpath(name)
    return gzip.decompress(folder.read_bytes())


def _wanted(name: str, params: Mapping[str, Any]) -> bool:
    return all(any(fnmatch(name, value) for value in rule["Values"]) for rule in params.get("Filters", ()))


def _page(key: str, rows: list[Any], params: Mapping[str, Any]) -> dict[str, Any]:
    if "MaxResults" not in params:
        return {key: rows}
    start = int(params.get("NextToken") or 0)
    end = start + params["MaxResults"]
    return {key: rows[start:end], **({"NextToken": str(end)} if end < len(rows) else {})}


def _product(region: str, name: str) -> str:
    """One product as the Pricing API lists it: some 25 attributes, the term on demand and those reserved."""
    sku = f"{abs(hash((region, name))):016X}"
    plain = {
        "servicecode": "AmazonEC2", "regionCode": region, "location": region, "locationType": "AWS Region",
        "instanceType": name, "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "marketoption": "OnDemand", "operation": "RunInstances",
        "usagetype": f"BoxUsage:{name}", "licenseModel": "No License required", "currentGeneration": "Yes",
        "instanceFamily": "GPU instance", "vcpu": "96", "memory": "1152 GiB", "storage": "8 x 1000 SSD",
        "networkPerformance": "400 Gigabit", "processorArchitecture": "64-bit",
        "physicalProcessor": "Intel Xeon",
        "clockSpeed": "3 GHz", "dedicatedEbsThroughput": "19000 Mbps", "enhancedNetworkingSupported": "Yes",
        "servicename": "Amazon Elastic Compute Cloud", "vpcnetworkingsupport": "true",
        "intelAvxAvailable": "Yes",
        "intelAvx2Available": "Yes", "intelTurboAvailable": "Yes", "normalizationSizeFactor": "NA",
        "availabilityzone": "NA", "gpuMemory": "NA", "instancesku": sku, "classicnetworkingsupport": "false",
        "processorFeatures": "Intel AVX, Intel AVX2, Intel AVX512, Intel Turbo",
    }  # fmt: skip
    product = {
        "product": {"productFamily": "Compute Instance", "attributes": plain, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {f"{sku}.JRTCKXETXF": _term(sku, name, "JRTCKXETXF", {})},
            "Reserved": {f"{sku}.{code}": _term(sku, name, code, _RESERVED) for code in _CODES},
        },
        "version": "20260601000000",
        "publicationDate": "2026-06-01T00:00:00Z",
    }
    return json.dumps(product, separators=(",", ":"))


_CODES = tuple(f"OFFERTERM{index:X}" for index in range(_RESERVED_TERMS))
_RESERVED = {
    "LeaseContractLength": "3yr",
    "OfferingClass": "convertible",
    "PurchaseOption": "Partial Upfront",
}


def _term(sku: str, name: str, code: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    rate = f"{sku}.{code}.6YS6EN2CT7"
    dimension = {
        "unit": "Hrs",
        "endRange": "Inf",
        "description": f"$32.77 per On Demand Linux {name} Instance Hour",
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {"USD": "32.7726000000"},
    }
    return {
        "priceDimensions": {rate: dimension},
        "sku": sku,
        "effectiveDate": "2026-06-01T00:00:00Z",
        "offerTermCode": code,
        "termAttributes": dict(attributes),
    }
