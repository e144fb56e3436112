"""`corral check` for an Azure account: each line one question, each failure with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial

from providers.azure.arm import NETWORK, PERMISSIONS, RESOURCES, SUBSCRIPTIONS, Arm
from providers.azure.images import Images
from providers.azure.networks import Networks
from providers.azure.quotas import Quotas
from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CheckResult

NAMESPACES = ("Microsoft.Compute", "Microsoft.Network")
ACTIONS = (
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
)
ADDRESS_ACTIONS = (
    "Microsoft.Network/publicIPAddresses/write",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/publicIPAddresses/join/action",
)

_REMEDIES = {
    ErrorKind.AUTH: "give the account's identity a role on the resource group that allows these actions",
    ErrorKind.QUOTA: "ask for more in the Azure portal under Quotas, Compute; GPU families start at 0",
    ErrorKind.TRANSIENT: "try again; if it stays, look at the proxy and the network",
    ErrorKind.THROTTLED: "try again in a minute",
}


class Checks:
    """Looks at everything that a launch will need, and creates nothing."""

    def __init__(
        self, config: AccountConfig, arm: Arm, images: Images, networks: Networks, quotas: Quotas
    ) -> None:
        self._config = config
        self._arm = arm
        self._images = images
        self._networks = networks
        self._quotas = quotas

    def run(self) -> list[CheckResult]:
        """All lines; the first alone if there is no credential to ask with."""
        first = self._line("credentials", self._token, "look at accounts.credentials and the identity there")
        if not first.ok:
            return [first]
        return [first, *self._account(), *self._regions()]

    def _account(self) -> Iterator[CheckResult]:
        yield self._line(f"subscription {self._config.subscription}", self._subscription)
        for namespace in NAMESPACES:
            remedy = f"az provider register --namespace {namespace}"
            yield self._line(namespace, partial(self._registered, namespace), remedy)
        yield self._line(f"resource group {self._arm.group_name}", self._group, "create it, or name another")
        yield self._line("permissions", self._permissions)

    def _regions(self) -> Iterator[CheckResult]:
        for region, settings in self._config.regions.items():
            yield self._line(f"region {region}", partial(self._region, region), "use a name of the list")
            yield self._line(f"quotas in {region}", partial(self._quotas.review, region))
            yield self._line(f"image in {region}", partial(self._image, region, settings))
            yield self._line(f"subnet in {region}", partial(self._subnets, region, settings))
            if settings.security_groups:
                yield self._line(f"security group in {region}", partial(self._security, settings))

    def _line(self, subject: str, look: Callable[[], str], remedy: str = "") -> CheckResult:
        try:
            return CheckResult(subject, True, look())
        except ProviderError as error:
            return CheckResult(subject, False, str(error), remedy or _REMEDIES.get(error.kind, ""))
        except Exception as error:
            text = f"an answer that is not as documented: {type(error).__name__}: {error}"
            return CheckResult(subject, False, text)

    def _token(self) -> str:
        self._arm.token()
        return "a token was issued"

    def _subscription(self) -> str:
        found = self._arm.get(self._arm.subscription, SUBSCRIPTIONS)
        state = str(found.get("state"))
        if state not in {"Enabled", "Warned", "PastDue"}:
            raise self._wrong(ErrorKind.ACCOUNT_BLOCKED, f"it is {state}")
        return f"{found.get('displayName') or 'found'}, {state}"

    def _registered(self, namespace: str) -> str:
        found = self._arm.get(f"{self._arm.subscription}/providers/{namespace}", RESOURCES)
        state = str(found.get("registrationState"))
        if state != "Registered":
            raise self._wrong(ErrorKind.ACCOUNT_BLOCKED, f"resource provider is {state}")
        return state

    def _group(self) -> str:
        found = self._arm.get(self._arm.group, RESOURCES)
        state = str((found.get("properties") or {}).get("provisioningState"))
        if state == "Deleting":
            raise self._wrong(ErrorKind.CONFLICT, "it is being deleted")
        return f"in {found.get('location')}"

    def _permissions(self) -> str:
        rows = self._arm.pages(
            f"{self._arm.group}/providers/Microsoft.Authorization/permissions", PERMISSIONS
        )
        public = any(region.public_address for region in self._config.regions.values())
        needed = ACTIONS + (ADDRESS_ACTIONS if public else ())
        missing = [action for action in needed if not any(_allows(row, action) for row in rows)]
        if missing:
            raise self._wrong(ErrorKind.AUTH, f"not allowed: {', '.join(missing)}")
        return f"all {len(needed)} actions"

    def _region(self, region: str) -> str:
        known = self._arm.pages(f"{self._arm.subscription}/locations", SUBSCRIPTIONS)
        names = {str(one.get("name")): str(one.get("displayName") or "found") for one in known}
        if region not in names:
            text = f"no such region; there are {', '.join(sorted(names))}"
            raise self._wrong(ErrorKind.NOT_FOUND, text)
        return names[region]

    def _image(self, region: str, settings: RegionConfig) -> str:
        wanted = settings.image or self._config.image
        if wanted is None:
            raise self._wrong(ErrorKind.INVALID_REQUEST, "no image is set for the account or the region")
        return self._images.resolve(wanted, region).reference

    def _subnets(self, region: str, settings: RegionConfig) -> str:
        subnets = settings.subnets or (self._networks.subnet(region, settings),)
        for subnet in subnets:
            self._arm.get(subnet, NETWORK)
        return ", ".join(subnets)

    def _security(self, settings: RegionConfig) -> str:
        groups = settings.security_groups
        if len(groups) > 1:
            raise self._wrong(ErrorKind.INVALID_REQUEST, "a network card takes one security group")
        self._arm.get(groups[0], NETWORK)
        return groups[0]

    def _wrong(self, kind: ErrorKind, message: str) -> ProviderError:
        return ProviderError(kind, message)


def _allows(row: dict[str, Sequence[str]], action: str) -> bool:
    """Whether one of the identity's roles allows an action; both use `*`."""
    wanted = action.lower()

    def listed(name: str) -> bool:
        return any(fnmatchcase(wanted, pattern.lower()) for pattern in row.get(name) or ())

    return listed("actions") and not listed("notActions")
