"""Disks on the EC2 face, the ones that outlived their instance included: DescribeVolumes, DeleteVolume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import Getter, filtered, no_ids_and_pages, page
from sandbox.faces.ec2.shapes import tags
from sandbox.vm import Vm

_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {tag["Key"]: tag["Value"] for tag in row["Tags"]},
    "availability-zone": lambda row: [row["AvailabilityZone"]],
    "status": lambda row: [row["State"]],
    "volume-id": lambda row: [row["VolumeId"]],
}


def describe(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """By ids, filters and pages."""
    no_ids_and_pages(params, "VolumeIds")
    dry_run(params)
    rows = [_row(context, vm, volume) for vm, volume in _volumes(context)]
    wanted = params.get("VolumeIds", [])
    for one in wanted:
        if one not in {row["VolumeId"] for row in rows}:
            raise _unknown(one)
    rows = [row for row in rows if not wanted or row["VolumeId"] in wanted]
    shown, token = page(filtered(rows, params.get("Filters", []), _FILTERS), params, "volumes", most=500)
    return {"Volumes": shown, "NextToken": token}


def delete(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """One that no instance holds."""
    wanted = params["VolumeId"]
    for vm, volume in _volumes(context):
        if volume == wanted:
            dry_run(params)
            if vm.live:
                raise AwsError("VolumeInUse", f"Volume {wanted} is currently attached to {vm.id}")
            context.world.release("aws", "disk", wanted)
            return {}
    raise _unknown(wanted)


def _volumes(context: Context) -> Iterator[tuple[Vm, str]]:
    for vm in context.world.vms("aws", lambda vm: vm.region == context.region):
        for volume in vm.objects.get("disk", []):
            if context.world.exists("aws", "disk", volume):
                yield vm, volume


def _row(context: Context, vm: Vm, volume: str) -> dict[str, Any]:
    return {
        "VolumeId": volume,
        "AvailabilityZone": context.table.zones[vm.zone].name,
        "AvailabilityZoneId": vm.zone,
        "CreateTime": vm.created_at,
        "Size": vm.extra["disk_gib"],
        "State": "in-use" if vm.live else "available",
        "VolumeType": "gp3",
        "Attachments": [{"InstanceId": vm.id, "State": "attached", "VolumeId": volume}] if vm.live else [],
        "Tags": tags(vm.extra["volume_tags"]),
    }


def _unknown(volume: str) -> AwsError:
    return AwsError("InvalidVolume.NotFound", f"The volume '{volume}' does not exist.")
