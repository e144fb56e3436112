"""What the account owns before a launch: subnets, security groups, images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError, missing
from sandbox.faces.ec2.pages import Getter, filtered, no_ids_and_pages, page
from sandbox.faces.ec2.site import ACCOUNT, IMAGE_GIB, IMAGE_MADE, IMAGE_NAME, ROOT_DEVICE, Subnet

_SUBNET_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {},
    "availability-zone": lambda row: [row["AvailabilityZone"]],
    "availability-zone-id": lambda row: [row["AvailabilityZoneId"]],
    "default-for-az": lambda row: [row["DefaultForAz"]],
    "map-public-ip-on-launch": lambda row: [row["MapPublicIpOnLaunch"]],
    "state": lambda row: [row["State"]],
    "subnet-id": lambda row: [row["SubnetId"]],
    "vpc-id": lambda row: [row["VpcId"]],
}
_TABLE_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {},
    "association.main": lambda row: [one["Main"] for one in row["Associations"]],
    "route-table-id": lambda row: [row["RouteTableId"]],
    "vpc-id": lambda row: [row["VpcId"]],
}
_GROUP_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {},
    "group-id": lambda row: [row["GroupId"]],
    "group-name": lambda row: [row["GroupName"]],
    "vpc-id": lambda row: [row["VpcId"]],
}
_IMAGE_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {},
    "architecture": lambda row: [row["Architecture"]],
    "image-id": lambda row: [row["ImageId"]],
    "is-public": lambda row: [row["Public"]],
    "name": lambda row: [row["Name"]],
    "owner-id": lambda row: [row["OwnerId"]],
    "root-device-type": lambda row: [row["RootDeviceType"]],
    "state": lambda row: [row["State"]],
    "virtualization-type": lambda row: [row["VirtualizationType"]],
}


def describe_subnets(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The default subnet of each zone."""
    no_ids_and_pages(params, "SubnetIds")
    dry_run(params)
    wanted = params.get("SubnetIds", [])
    unknown = [one for one in wanted if one not in context.site.subnets]
    if unknown:
        raise missing("InvalidSubnetID.NotFound", "subnet", unknown)
    subnets = [subnet for one, subnet in context.site.subnets.items() if not wanted or one in wanted]
    rows = [_subnet(context, subnet) for subnet in subnets]
    shown, token = page(filtered(rows, params.get("Filters", []), _SUBNET_FILTERS), params, "subnets")
    return {"Subnets": shown, "NextToken": token}


def _subnet(context: Context, subnet: Subnet) -> dict[str, Any]:
    used = len(context.world.vms("aws", lambda vm: vm.live and vm.extra.get("subnet") == subnet.id))
    return {
        "SubnetId": subnet.id,
        "VpcId": context.site.vpc,
        "OwnerId": ACCOUNT,
        "State": "available",
        "AvailabilityZone": subnet.zone.name,
        "AvailabilityZoneId": subnet.zone.key,
        "CidrBlock": subnet.cidr,
        "AvailableIpAddressCount": subnet.addresses - used,
        "DefaultForAz": True,
        "MapPublicIpOnLaunch": True,
        "Tags": [],
    }


def describe_route_tables(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The main table of the default network, whose way out is an internet gateway."""
    no_ids_and_pages(params, "RouteTableIds")
    dry_run(params)
    suffix = context.site.vpc.removeprefix("vpc-")
    local = {"DestinationCidrBlock": "172.31.0.0/16", "GatewayId": "local", "State": "active"}
    out = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": f"igw-{suffix}", "State": "active"}
    row = {
        "RouteTableId": f"rtb-{suffix}",
        "VpcId": context.site.vpc,
        "OwnerId": ACCOUNT,
        "Associations": [{"Main": True, "RouteTableId": f"rtb-{suffix}"}],
        "Routes": [local, out],
        "Tags": [],
    }
    for one in params.get("RouteTableIds", []):
        if one != row["RouteTableId"]:
            raise missing("InvalidRouteTableID.NotFound", "routeTable", [one])
    shown, token = page(filtered([row], params.get("Filters", []), _TABLE_FILTERS), params, "route tables")
    return {"RouteTables": shown, "NextToken": token}


def describe_security_groups(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The default group."""
    no_ids_and_pages(params, "GroupIds")
    dry_run(params)
    row = {
        "GroupId": context.site.security_group,
        "GroupName": "default",
        "Description": "default VPC security group",
        "OwnerId": ACCOUNT,
        "VpcId": context.site.vpc,
        "IpPermissions": [],
        "IpPermissionsEgress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        "Tags": [],
    }
    for key, field in (("GroupIds", "GroupId"), ("GroupNames", "GroupName")):
        unknown = [one for one in params.get(key, []) if one != row[field]]
        if unknown:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{unknown[0]}' does not exist")
    shown, token = page(filtered([row], params.get("Filters", []), _GROUP_FILTERS), params, "groups")
    return {"SecurityGroups": shown, "NextToken": token}


def describe_images(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The account's own image, which carries the agent."""
    no_ids_and_pages(params, "ImageIds")
    dry_run(params)
    row = {
        "ImageId": context.site.image,
        "Name": IMAGE_NAME,
        "Description": "Agent and NVIDIA driver",
        "OwnerId": ACCOUNT,
        "ImageLocation": f"{ACCOUNT}/{IMAGE_NAME}",
        "State": "available",
        "Public": False,
        "CreationDate": IMAGE_MADE.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "Architecture": "x86_64",
        "ImageType": "machine",
        "PlatformDetails": "Linux/UNIX",
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "BootMode": "uefi-preferred",
        "BlockDeviceMappings": [
            {
                "DeviceName": ROOT_DEVICE,
                "Ebs": {"VolumeSize": IMAGE_GIB, "VolumeType": "gp3", "DeleteOnTermination": True},
            }
        ],
        "Tags": [],
    }
    wanted = params.get("ImageIds", [])
    unknown = [one for one in wanted if one != row["ImageId"]]
    if unknown:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{unknown[0]}]' does not exist")
    owners = params.get("Owners", [])
    rows = [row] if not owners or {"self", ACCOUNT} & set(owners) else []
    shown, token = page(filtered(rows, params.get("Filters", []), _IMAGE_FILTERS), params, "images")
    return {"Images": shown, "NextToken": token}
