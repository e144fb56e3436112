"""The EC2 face: EC2's Query API, with STS, Service Quotas, Pricing and Systems Manager on the same port.

What a request means is told by its signature's scope: `Credential=KEY/DATE/REGION/SERVICE/aws4_request`. Any
key is good, a request without one is not.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from botocore.model import OperationModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sandbox.catalogue import catalogue
from sandbox.faces.ec2 import (
    advice,
    estate,
    instances,
    inventory,
    prices,
    quotas,
    reservations,
    services,
    spot,
    volumes,
)
from sandbox.faces.ec2.context import Context, Operation
from sandbox.faces.ec2.errors import AwsError, from_fault, respond
from sandbox.faces.ec2.launch import Launches
from sandbox.faces.ec2.placement import PlacementGroups
from sandbox.faces.ec2.protocol import (
    SIGNING_NAMES,
    operation,
    read_json,
    read_query,
    service,
    write_json,
    write_query,
)
from sandbox.faces.ec2.site import site
from sandbox.faults import Fault, flatten
from sandbox.wire import answer
from sandbox.world import World

_SCOPE = re.compile(r"Credential=[^/,\s]+/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
_LARGEST = 1 << 20
# AWS Billing User Guide, "AWS Price List service endpoints".
_PRICING_REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")


def _operations() -> dict[tuple[str, str], Operation]:
    groups = PlacementGroups()
    launches = Launches(groups)
    return {
        ("ec2", "RunInstances"): launches.run_instances,
        ("ec2", "DescribeInstances"): instances.describe_instances,
        ("ec2", "TerminateInstances"): instances.terminate_instances,
        ("ec2", "CreateTags"): instances.create_tags,
        ("ec2", "DescribeSpotInstanceRequests"): spot.describe,
        ("ec2", "CancelSpotInstanceRequests"): spot.cancel,
        ("ec2", "DescribeRegions"): inventory.describe_regions,
        ("ec2", "DescribeAvailabilityZones"): inventory.describe_availability_zones,
        ("ec2", "DescribeInstanceTypes"): inventory.describe_instance_types,
        ("ec2", "DescribeInstanceTypeOfferings"): inventory.describe_instance_type_offerings,
        ("ec2", "DescribeCapacityReservations"): reservations.describe,
        ("ec2", "CreatePlacementGroup"): groups.create,
        ("ec2", "DescribePlacementGroups"): groups.describe,
        ("ec2", "DeletePlacementGroup"): groups.delete,
        ("ec2", "GetSpotPlacementScores"): advice.get_spot_placement_scores,
        ("ec2", "DescribeRouteTables"): estate.describe_route_tables,
        ("ec2", "DescribeVolumes"): volumes.describe,
        ("ec2", "DeleteVolume"): volumes.delete,
        ("ec2", "DescribeSubnets"): estate.describe_subnets,
        ("ec2", "DescribeSecurityGroups"): estate.describe_security_groups,
        ("ec2", "DescribeImages"): estate.describe_images,
        ("ec2", "DescribeSpotPriceHistory"): prices.describe_spot_price_history,
        ("pricing", "GetProducts"): prices.get_products,
        ("sts", "GetCallerIdentity"): services.get_caller_identity,
        ("service-quotas", "ListServiceQuotas"): quotas.list_service_quotas,
        ("service-quotas", "ListAWSDefaultServiceQuotas"): quotas.list_aws_default_service_quotas,
        ("service-quotas", "GetAWSDefaultServiceQuota"): quotas.get_aws_default_service_quota,
        ("service-quotas", "GetServiceQuota"): quotas.get_service_quota,
        ("service-quotas", "RequestServiceQuotaIncrease"): quotas.request_service_quota_increase,
        (
            "service-quotas",
            "ListRequestedServiceQuotaChangeHistory",
        ): quotas.list_requested_service_quota_change_history,
        ("service-quotas", "GetRequestedServiceQuotaChange"): quotas.get_requested_service_quota_change,
        ("ssm", "GetParameter"): services.get_parameter,
    }


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, as far as it can be told before its parameters are read."""

    model: OperationModel
    region: str
    form: Mapping[str, str]
    body: bytes

    @property
    def protocol(self) -> str:
        return str(self.model.service_model.resolved_protocol)

    @property
    def key(self) -> tuple[str, str]:
        return str(self.model.service_model.service_name), str(self.model.name)

    def params(self) -> dict[str, str]:
        """What fault rules match on: the request flat, its region and service."""
        flat = self.form if self.protocol != "json" else flatten(read_json(self.model, self.body))
        return {**flat, "Region": self.region, "Service": self.key[0]}


def app(world: World) -> Starlette:
    """All operations over one world."""
    face = _Face(world)
    return Starlette(routes=[Route("/", face.respond, methods=["POST"])])


class _Face:
    def __init__(self, world: World) -> None:
        self._world = world
        self._operations = _operations()

    async def respond(self, request: Request) -> Response:
        request_id = str(uuid.uuid4())
        protocol = "json" if "X-Amz-Target" in request.headers else "ec2"
        try:
            call = _call(request, await request.body())
            protocol = call.protocol
            params = call.params()
        except AwsError as error:
            return respond(protocol, error, request_id)
        return await answer(
            self._world,
            "aws",
            call.model.name,
            params,
            request,
            lambda fault: self._act(call, request_id, fault),
            lambda fault: respond(protocol, from_fault(protocol, fault), request_id),
        )

    def _act(self, call: _Call, request_id: str, fault: Fault | None) -> Response:
        try:
            action = self._operations.get(call.key)
            if action is None:
                text = f"{call.model.name} exists but is not served by the local clouds"
                raise AwsError("UnsupportedOperation", text, 501)
            context = Context(self._world, call.region, site(call.region), call.form, fault)
            if call.protocol == "json":
                result = action(context, read_json(call.model, call.body))
                text, kind = write_json(call.model, result), "application/x-amz-json-1.1"
            else:
                result = action(context, read_query(call.model, call.form))
                text, kind = write_query(call.model, result, request_id), "text/xml"
        except AwsError as error:
            return respond(call.protocol, error, request_id)
        return Response(text, media_type=kind, headers={"x-amzn-RequestId": request_id})


def _call(request: Request, body: bytes) -> _Call:
    """Which operation of which service in which region."""
    authorization = request.headers.get("Authorization", "")
    scope = _SCOPE.search(authorization)
    if scope is None:
        text = "Request must contain a signature of version 4 with a credential scope"
        raise AwsError("MissingAuthenticationToken", text, 403)
    region, signed = scope.groups()
    known = _PRICING_REGIONS if signed == "pricing" else catalogue("aws").regions
    if signed not in SIGNING_NAMES or region not in known:
        text = "AWS was not able to validate the provided access credentials"
        raise AwsError("AuthFailure", text, 401)
    if len(body) > _LARGEST:
        raise AwsError("RequestEntityTooLarge", "The request is too large", 413)
    model = service(SIGNING_NAMES[signed])
    if model.resolved_protocol == "json":
        name = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        return _Call(operation(model, name), region, {}, body)
    form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return _Call(operation(model, form.get("Action", "")), region, form, b"")
