"""The lines of `corral check` about one region of an Azure account: sizes, quotas, image, network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from providers.azure.arm import Arm, same_place
from providers.azure.images import PLAN_NAME, PLAN_PRODUCT, PLAN_PUBLISHER, Image, Images
from providers.azure.market import Market
from providers.azure.networks import Networks
from providers.azure.quotas import Quotas
from providers.azure.skus import Size
from providers.azure.versions import MARKETPLACE, NETWORK, SUBSCRIPTIONS
from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError

Question = tuple[str, Callable[[], str], str]
"""Subject, where the answer is from, and what to do if it is a ProviderError."""


class RegionChecks:
    """Questions about regions; each asks Azure when it is called."""

    def __init__(
        self,
        config: AccountConfig,
        arm: Arm,
        images: Images,
        networks: Networks,
        market: Market,
        quotas: Quotas,
    ) -> None:
        self._config = config
        self._arm = arm
        self._images = images
        self._networks = networks
        self._market = market
        self._quotas = quotas

    def questions(self, region: str, settings: RegionConfig) -> Iterator[Question]:
        """What to ask about a region, in the order in which a launch would need it."""
        yield "region", partial(self._region, region, settings), "use a name of the list"
        yield "sizes in", partial(self._sizes, region), "look at allowed_types; ask Azure to open a size"
        yield "quotas in", partial(self._quotas.review, region), ""
        yield "image in", partial(self._image, region, settings), ""
        yield "subnet in", partial(self._subnets, region, settings), "name one with free addresses there"
        attach = "attach a NAT gateway to the subnet, or set public_address"
        yield "way out of", partial(self._way_out, region, settings), attach
        if settings.security_groups:
            yield "security group in", partial(self._security, region, settings), ""

    def _region(self, region: str, settings: RegionConfig) -> str:
        known = {
            str(one.get("name")): one
            for one in self._arm.pages(f"{self._arm.subscription}/locations", SUBSCRIPTIONS)
        }
        if region not in known:
            text = f"no such region; there are {', '.join(sorted(known))}"
            raise ProviderError(ErrorKind.NOT_FOUND, text)
        mapped = known[region].get("availabilityZoneMappings") or ()
        zones = sorted(str(one.get("logicalZone")) for one in mapped)
        wanted = {zone.removeprefix(f"{region}-") for zone in settings.zones if zone != region}
        if strange := sorted(wanted - set(zones)):
            text = f"no zone {', '.join(strange)}; there are {', '.join(zones) or 'none'}"
            raise ProviderError(ErrorKind.NOT_FOUND, text)
        name = str(known[region].get("displayName") or "found")
        return f"{name}, zones {', '.join(zones)}" if zones else name

    def _sizes(self, region: str) -> str:
        found = self._market.sizes(region)
        if strange := sorted(set(self._config.allowed_types) - set(found)):
            raise ProviderError(ErrorKind.NOT_FOUND, f"not known here: {', '.join(strange)}")
        sold = [size for size in found.values() if size.placements(region)]
        closed = sorted(set(found) - {size.type.name for size in sold})
        if not sold:
            raise ProviderError(ErrorKind.ACCOUNT_BLOCKED, f"all are closed to you: {', '.join(closed)}")
        gpus = sum(size.type.accelerator is not None for size in sold)
        text = f"{len(sold)} on offer, {gpus} of them with GPUs"
        return f"{text}; closed to this subscription: {', '.join(closed)}" if closed else text

    def _image(self, region: str, settings: RegionConfig) -> str:
        wanted = settings.image or self._config.image
        if wanted is None:
            raise ProviderError(ErrorKind.INVALID_REQUEST, "no image is set for the account or the region")
        image = self._images.resolve(wanted, region)
        if image.plan:
            self._accepted(dict(image.plan))
        useless = self._unbootable(image, region)
        return f"{image.reference}; no boot on {', '.join(useless)}" if useless else image.reference

    def _accepted(self, plan: Mapping[str, str]) -> None:
        publisher, product, name = plan[PLAN_PUBLISHER], plan[PLAN_PRODUCT], plan[PLAN_NAME]
        path = (
            f"{self._arm.subscription}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine"
            f"/publishers/{publisher}/offers/{product}/plans/{name}/agreements/current"
        )
        agreed = self._arm.get(path, MARKETPLACE)
        if not (agreed.get("properties") or {}).get("accepted"):
            order = f"az vm image terms accept --publisher {publisher} --offer {product} --plan {name}"
            raise ProviderError(ErrorKind.IMAGE_MISSING, f"its terms are not accepted yet: {order}")

    def _unbootable(self, image: Image, region: str) -> list[str]:
        sizes = [size for size in self._market.sizes(region).values() if size.placements(region)]
        return sorted(size.type.name for size in sizes if not _boots(image, size))

    def _subnets(self, region: str, settings: RegionConfig) -> str:
        subnets = settings.subnets or (self._networks.subnet(region, settings),)
        return ", ".join(self._subnet(subnet, region) for subnet in subnets)

    def _subnet(self, subnet: str, region: str) -> str:
        facts = self._arm.get(subnet, NETWORK).get("properties") or {}
        if facts.get("delegations"):
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{subnet} is delegated to another service")
        home = subnet.rpartition("/subnets/")[0]
        network = self._arm.get(home, NETWORK)
        if not same_place(str(network.get("location")), region):
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{subnet} is in {network.get('location')}")
        free = self._free(home, subnet)
        if free is not None and free < 1:
            raise ProviderError(ErrorKind.QUOTA, f"{subnet} has no free address")
        return subnet if free is None else f"{subnet} ({free:g} addresses free)"

    def _free(self, network: str, subnet: str) -> float | None:
        """Addresses that a subnet has left; None where Azure does not count them."""
        for row in self._arm.pages(f"{network}/usages", NETWORK):
            if str(row.get("id")).lower() == subnet.lower():
                limit, used = row.get("limit"), row.get("currentValue")
                if isinstance(limit, int | float) and isinstance(used, int | float) and limit >= 0:
                    return limit - used
        return None

    def _way_out(self, region: str, settings: RegionConfig) -> str:
        """Machines must reach the service. Azure gives networks made since 2026 no way out of their own
        (Azure documentation, "Default outbound access").
        """
        if settings.public_address:
            return "an address for each machine"
        subnet = self._networks.subnet(region, settings)
        facts = self._arm.get(subnet, NETWORK).get("properties") or {}
        for part in ("natGateway", "routeTable"):
            if facts.get(part):
                return str(facts[part].get("id") or part)
        if facts.get("defaultOutboundAccess") is False:
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{subnet} has none")
        return "Azure's default outbound access, which is being retired"

    def _security(self, region: str, settings: RegionConfig) -> str:
        groups = settings.security_groups
        if len(groups) > 1:
            raise ProviderError(ErrorKind.INVALID_REQUEST, "a network card takes one security group")
        found = self._arm.get(groups[0], NETWORK)
        if not same_place(str(found.get("location")), region):
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{groups[0]} is in {found.get('location')}")
        return groups[0]


def _boots(image: Image, size: Size) -> bool:
    generations = size.generations - {""}
    fits = not image.generation or not generations or image.generation.upper() in generations
    return fits and image.architecture in (None, size.type.architecture)
