"""The real azure-mgmt-compute client on the local Resource Manager, and bodies to send with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AccessToken
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.rest import HttpRequest
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute.models import VirtualMachine

from tests.sandbox.arm_server import GROUP, SUBSCRIPTION, Azure, azure

SIZE = "Standard_NC24ads_A100_v4"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
SUBNET = f"{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/vnet-eastus/subnets/default"
IMAGE = f"{GROUP_ID}/providers/Microsoft.Compute/galleries/corral/images/corral/versions/1.0.0"
API = {"api-version": "2026-04-01"}


class Token:
    """A credential that is none."""

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken("t", 4_000_000_000)


class PlainHttp(SansIOHTTPPolicy[Any, Any]):
    """Lets tokens travel without TLS."""

    def on_request(self, request: Any) -> None:
        request.context.options.setdefault("enforce_https", False)


class Site:
    """A local Azure and the SDK's client for it."""

    def __init__(self, cloud: Azure, client: ComputeManagementClient) -> None:
        self.cloud = cloud
        self.client = client
        self.vms = client.virtual_machines

    def create(self, name: str = "vm", **changes: Any) -> Any:
        """Send a PUT; the poller."""
        return self.vms.begin_create_or_update(GROUP, name, VirtualMachine(body(name, **changes)))

    def made(self, name: str = "vm", **changes: Any) -> Any:
        """Create, wait, and give back what the poller gives."""
        poller = self.create(name, **changes)
        self.cloud.advance(60)
        return poller.result(10)

    def send(self, method: str, path: str, body: Any = None, headers: Any = None, **query: str) -> Any:
        """A raw call: the response."""
        sent = {"$" + key[:-1] if key.endswith("_") else key: value for key, value in query.items()}
        request = HttpRequest(method, path, params={**API, **sent}, json=body, headers=headers or {})
        return self.client.send_request(request, retry_total=0)

    def get(self, path: str, **query: str) -> Any:
        """A raw read: its JSON."""
        response = self.send("GET", path, **query)
        response.raise_for_status()
        return response.json()

    def follow(self, url: str) -> Any:
        """What an absolute URL answers."""
        assert url.startswith(self.cloud.url)
        parts = urlsplit(url)
        response = self.client.send_request(HttpRequest("GET", f"{parts.path}?{parts.query}"), retry_total=0)
        return json.loads(response.text()), response


@contextmanager
def site(scenario: dict[str, object] | None = None) -> Iterator[Site]:
    """A local Azure with a client for as long as the block lasts."""
    with azure(scenario) as cloud:
        client = ComputeManagementClient(
            Token(),
            SUBSCRIPTION,
            base_url=cloud.url,
            per_call_policies=[PlainHttp()],
            retry_total=0,
            polling_interval=0.01,
        )
        with client:
            yield Site(cloud, client)


def body(name: str = "vm", *, spot: bool = True, zone: str | None = "1", **changes: Any) -> dict[str, Any]:
    """A whole create; `changes` replace parts of the top level or, in `properties`, of those."""
    delete = changes.pop("delete", "Delete")
    address = {
        "name": f"{name}-ip",
        "sku": {"name": "Standard", "tier": "Regional"},
        "tags": {"part": "address"},
        "properties": {"deleteOption": delete, "publicIPAllocationMethod": "Static"},
    }
    card = {
        "name": f"{name}-nic",
        "tags": {"part": "card"},
        "properties": {
            "primary": True,
            "deleteOption": delete,
            "ipConfigurations": [
                {
                    "name": "primary",
                    "properties": {
                        "primary": True,
                        "subnet": {"id": SUBNET},
                        "publicIPAddressConfiguration": address,
                    },
                }
            ],
        },
    }
    key = {"path": "/home/corral/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA"}
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": SIZE},
        "storageProfile": {
            "imageReference": {"id": IMAGE},
            "osDisk": {
                "name": f"{name}-os",
                "createOption": "FromImage",
                "deleteOption": delete,
                "diskSizeGB": 64,
                "managedDisk": {"storageAccountType": "Premium_LRS"},
            },
        },
        "osProfile": {
            "computerName": name,
            "adminUsername": "corral",
            "customData": base64.b64encode(b"#cloud-config\n").decode(),
            "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}},
        },
        "networkProfile": {"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [card]},
        "priority": "Regular",
    }
    if spot:
        properties |= {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}
    properties |= changes.pop("properties", {})
    whole = {"location": "eastus", "tags": {"owner": "test"}, "properties": properties}
    if zone is not None:
        whole["zones"] = [zone]
    return {**whole, **changes}
