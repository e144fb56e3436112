"""`corral check` for an Azure account: each line one question, each failure with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from providers.azure.arm import Arm
from providers.azure.region_checks import RegionChecks
from providers.azure.versions import LOCKS, PERMISSIONS, RESOURCES, SUBSCRIPTIONS
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CheckResult

# Resource providers, and what is not possible while one is not registered.
NAMESPACES = {
    "Microsoft.Compute": "machines",
    "Microsoft.Network": "networks",
    "Microsoft.Quota": "requests for more quota",
    "Microsoft.ResourceGraph": "telling evictions from other ends",
}
ACTIONS = (
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/availabilitySets/read",
    "Microsoft.Compute/availabilitySets/write",
    "Microsoft.Compute/availabilitySets/delete",
    "Microsoft.Compute/disks/read",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
)
ADDRESS_ACTIONS = (
    "Microsoft.Network/publicIPAddresses/write",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/publicIPAddresses/join/action",
)
# On the subscription: these are about no resource group.
SUBSCRIPTION_ACTIONS = (
    "Microsoft.Compute/skus/read",
    "Microsoft.Compute/locations/usages/read",
)
# What works only with these; a team may do without.
OPTIONAL_ACTIONS = {
    "asking for more quota": (
        "Microsoft.Quota/quotas/read",
        "Microsoft.Quota/quotas/write",
        "Microsoft.Quota/quotaRequests/read",
    ),
    "spot placement scores": ("Microsoft.Compute/locations/placementScores/generate/action",),
    "reserved capacity": ("Microsoft.Compute/capacityReservationGroups/read",),
    "telling evictions from other ends": ("Microsoft.ResourceGraph/resources/read",),
}

_REMEDIES = {
    ErrorKind.AUTH: "give the account's identity a role that allows these actions (docs/azure.md)",
    ErrorKind.QUOTA: "ask for more: corral quota request, or the Azure portal under Quotas, Compute; "
    "GPU families start at 0",
    ErrorKind.TRANSIENT: "try again; if it stays, look at the proxy and the network",
    ErrorKind.THROTTLED: "try again in a minute",
}
POWERED_OFF = "it stops, and is billed until the service deletes it"


class Checks:
    """Looks at everything that a launch will need, and creates nothing."""

    def __init__(self, config: AccountConfig, arm: Arm, places: RegionChecks) -> None:
        self._config = config
        self._arm = arm
        self._places = places

    def run(self) -> list[CheckResult]:
        """All lines; the first alone if there is no credential to ask with."""
        first = line("credentials", self._token, "look at accounts.credentials and the identity there")
        if not first.ok:
            return [first]
        return [first, *self._account(), *self._regions()]

    def _account(self) -> Iterator[CheckResult]:
        group = f"resource group {self._arm.group_name}"
        yield line(f"subscription {self._config.subscription}", self._subscription)
        for namespace in NAMESPACES:
            remedy = f"az provider register --namespace {namespace}"
            yield line(namespace, partial(self._registered, namespace), remedy)
        yield line(group, self._group, "create it, or name another")
        yield line(f"locks on {group}", self._locks, "remove the lock, or use a resource group without one")
        yield line("permissions", self._permissions)
        yield line("permissions on the subscription", self._permissions_above)
        yield CheckResult("a machine that powers itself off", True, POWERED_OFF)

    def _regions(self) -> Iterator[CheckResult]:
        for region, settings in self._config.regions.items():
            for subject, look, remedy in self._places.questions(region, settings):
                yield line(f"{subject} {region}", look, remedy)

    def _token(self) -> str:
        self._arm.token()
        return "a token was issued"

    def _subscription(self) -> str:
        found = self._arm.get(self._arm.subscription, SUBSCRIPTIONS)
        state = str(found.get("state"))
        if state not in {"Enabled", "Warned", "PastDue"}:
            raise ProviderError(ErrorKind.ACCOUNT_BLOCKED, f"it is {state}")
        return f"{found.get('displayName') or 'found'}, {state}"

    def _registered(self, namespace: str) -> str:
        found = self._arm.get(f"{self._arm.subscription}/providers/{namespace}", RESOURCES)
        state = str(found.get("registrationState"))
        if state != "Registered":
            text = f"resource provider is {state}, which it must not be for {NAMESPACES[namespace]}"
            raise ProviderError(ErrorKind.ACCOUNT_BLOCKED, text)
        return state

    def _group(self) -> str:
        found = self._arm.get(self._arm.group, RESOURCES)
        state = str((found.get("properties") or {}).get("provisioningState"))
        if state == "Deleting":
            raise ProviderError(ErrorKind.CONFLICT, "it is being deleted")
        return f"in {found.get('location')}"

    def _locks(self) -> str:
        """A lock lets machines be made that nobody can delete again (Azure documentation, "Lock your Azure
        resources").
        """
        rows = self._arm.pages(f"{self._arm.group}/providers/Microsoft.Authorization/locks", LOCKS)
        found = {str(row.get("name")): str((row.get("properties") or {}).get("level")) for row in rows}
        locks = [f"{name} ({level})" for name, level in found.items() if level.lower() != "notspecified"]
        if locks:
            raise ProviderError(ErrorKind.CONFLICT, f"nothing in it can be deleted: {', '.join(locks)}")
        return "none"

    def _permissions(self) -> str:
        public = any(region.public_address for region in self._config.regions.values())
        return _allowed(self._roles(self._arm.group), ACTIONS + (ADDRESS_ACTIONS if public else ()))

    def _permissions_above(self) -> str:
        rows = self._roles(self._arm.subscription)
        text = _allowed(rows, SUBSCRIPTION_ACTIONS)
        lacking = [
            f"{what} ({', '.join(missing)})"
            for what, actions in OPTIONAL_ACTIONS.items()
            if (missing := _missing(rows, actions))
        ]
        return f"{text}; not allowed, so not possible: {'; '.join(lacking)}" if lacking else text

    def _roles(self, place: str) -> list[dict[str, Any]]:
        return self._arm.pages(f"{place}/providers/Microsoft.Authorization/permissions", PERMISSIONS)


def line(subject: str, look: Callable[[], str], remedy: str = "") -> CheckResult:
    """What `look` says, or why it fails; `remedy` takes the place of what usually helps."""
    try:
        return CheckResult(subject, True, look())
    except ProviderError as error:
        return CheckResult(subject, False, str(error), remedy or _REMEDIES.get(error.kind, ""))
    except Exception as error:
        text = f"an answer that is not as documented: {type(error).__name__}: {error}"
        return CheckResult(subject, False, text)


def _allowed(rows: Sequence[Mapping[str, Any]], needed: Sequence[str]) -> str:
    if missing := _missing(rows, needed):
        raise ProviderError(ErrorKind.AUTH, f"not allowed: {', '.join(missing)}")
    return f"all {len(needed)} actions"


def _missing(rows: Sequence[Mapping[str, Any]], needed: Sequence[str]) -> list[str]:
    return [action for action in needed if not any(_allows(row, action) for row in rows)]


def _allows(row: Mapping[str, Any], action: str) -> bool:
    """Whether one of the identity's roles allows an action; both use `*`."""
    wanted = action.lower()

    def listed(name: str) -> bool:
        return any(fnmatchcase(wanted, pattern.lower()) for pattern in row.get(name) or ())

    return listed("actions") and not listed("notActions")
