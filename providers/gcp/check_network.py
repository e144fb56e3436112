"""Looks whether instances of a region get an address and reach the outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.observation import tail
from providers.gcp.urls import partial_url, subnet_url

_PAGE = 500  # the API's maximum
_DEFAULT = "default"


class Networks:
    """The networks of one account."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig) -> None:
        self._clients = clients
        self._calls = calls
        self._config = config

    def names(self, region: str) -> tuple[str, ...]:
        """The subnetworks that instances of the region are put into."""
        return self._config.regions[region].subnets or (_DEFAULT,)

    def subnet(self, region: str, name: str) -> str:
        """What a subnetwork is; ProviderError if it does not exist or has no free address."""
        found = self._subnet(region, name)
        free = _free(found)
        if free == 0:
            text = f"{found.ip_cidr_range} has no free address"
            raise ProviderError(ErrorKind.CAPACITY, text)
        left = "" if free is None else f", {free} addresses free"
        return f"{found.ip_cidr_range} in {tail(found.network)}{left}"

    def way_out(self, region: str) -> str:
        """How instances reach the outside; ProviderError where they cannot."""
        if self._config.regions[region].public_address:
            return "by an external address of each instance"
        lost = []
        for name in self.names(region):
            found = self._subnet(region, name)
            if not _translated(self._routers(region, name), found):
                lost.append(f"{name} ({tail(found.network)})")
        if lost:
            text = f"no external addresses, and no Cloud NAT in {region} serves {', '.join(lost)}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, text)
        return "by Cloud NAT"

    def _subnet(self, region: str, name: str) -> Any:
        from google.cloud.compute_v1.types import GetSubnetworkRequest

        parts = subnet_url(str(self._config.project), region, name).split("/")
        request = GetSubnetworkRequest(
            project=parts[1], region=parts[3], subnetwork=parts[5], views="WITH_UTILIZATION"
        )
        where = Where(self._config.name, region, subnet=name)
        return self._calls.read(self._clients.subnetworks.get, request, where)

    def _routers(self, region: str, subnet: str) -> list[Any]:
        """Those of the project that the subnetwork is in: a shared one's are the host project's."""
        from google.cloud.compute_v1.types import ListRoutersRequest

        project = subnet_url(str(self._config.project), region, subnet).split("/")[1]
        request = ListRoutersRequest(project=project, region=region, max_results=_PAGE)
        where = Where(self._config.name, region)
        pages = self._calls.pages(self._clients.routers.list, request, where)
        return [router for page in pages for router in page.items]


def _free(subnet: Any) -> int | None:
    """Free addresses of the primary range; None where it is not told."""
    for used in subnet.utilization_details.ipv4_utilizations:
        if not used.range_name:
            return int(used.total_free_ip)
    return None


def _translated(routers: Iterable[Any], subnet: Any) -> bool:
    """Whether a NAT of the subnetwork's network serves it."""
    for router in routers:
        if tail(router.network) != tail(subnet.network):
            continue
        for nat in router.nats:
            names = {partial_url(entry.name) for entry in nat.subnetworks}
            everything = nat.source_subnetwork_ip_ranges_to_nat.startswith("ALL_SUBNETWORKS")
            if nat.type_ != "PRIVATE" and (everything or partial_url(subnet.self_link) in names):
                return True
    return False
