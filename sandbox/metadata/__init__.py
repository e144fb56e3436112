"""The instances' metadata services, one path per instance: `/i/KEY` stands for the vendor's own address.

Below it each vendor's dialect is spoken as on the real address: EC2's IMDSv2, Compute Engine's metadata
server, Azure's IMDS with scheduled events.
"""

from __future__ import annotations

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sandbox.metadata import azure, ec2, gce
from sandbox.vm import Vm
from sandbox.world import World


class _Dialect(Protocol):
    async def respond(self, vm: Vm, request: Request, path: str) -> Response: ...


def app(world: World) -> Starlette:
    """The one server behind every instance's CORRAL_METADATA_URL."""
    dialects: dict[str, _Dialect] = {
        "aws": ec2.Imds(world),
        "gcp": gce.MetadataServer(world),
        "azure": azure.Imds(world),
    }

    async def respond(request: Request) -> Response:
        vm = world.vm_of_key(request.path_params["key"])
        if vm is None or vm.state not in ("pending", "running"):
            return PlainTextResponse("no instance here", 404)
        return await dialects[vm.provider].respond(vm, request, "/" + request.path_params["path"])

    return Starlette(routes=[Route("/i/{key}/{path:path}", respond, methods=["GET", "PUT", "POST"])])
