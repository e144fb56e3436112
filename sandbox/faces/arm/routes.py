"""Which calls there are. Operation ids are those of the REST reference, which fault rules name."""

from __future__ import annotations

from sandbox.faces.arm import (
    account,
    creation,
    disks,
    graph,
    images,
    machines,
    market,
    network,
    quota,
    reservations,
    retail,
    scores,
    sets,
)
from sandbox.faces.arm.call import Route

_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_COMPUTE = f"{_SUBSCRIPTION}/providers/Microsoft.Compute"
_VMS = f"{_GROUP}/providers/Microsoft.Compute/virtualMachines"
_VM = f"{_VMS}/{{name}}"
_NETWORK = f"{_GROUP}/providers/Microsoft.Network"
_VNET = f"{_NETWORK}/virtualNetworks/{{name}}"
_SETS = f"{_GROUP}/providers/Microsoft.Compute/availabilitySets"
_CARDS = f"{_NETWORK}/networkInterfaces"
_ADDRESSES = f"{_NETWORK}/publicIPAddresses"
_DISKS = f"{_GROUP}/providers/Microsoft.Compute/disks"
_IMAGE = f"{_GROUP}/providers/Microsoft.Compute/galleries/{{gallery}}/images/{{image}}"
_MARKET_IMAGE = (
    f"{_COMPUTE}/locations/{{location}}/publishers/{{publisher}}/artifacttypes/vmimage/offers/{{offer}}"
    "/skus/{sku}/versions"
)
_RESERVED = f"{_GROUP}/providers/Microsoft.Compute/capacityReservationGroups/{{name}}"
_QUOTA = f"{_COMPUTE}/locations/{{location}}/providers/Microsoft.Quota"
_TERMS = (
    f"{_SUBSCRIPTION}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/{{publisher}}"
    "/offers/{offer}/plans/{plan}/agreements/current"
)

ROUTES: tuple[Route, ...] = (
    Route("PUT", _VM, creation.CREATE, creation.create),
    Route("GET", _VM, "VirtualMachines_Get", machines.get),
    Route("DELETE", _VM, "VirtualMachines_Delete", machines.delete),
    Route("GET", f"{_VM}/instanceView", "VirtualMachines_InstanceView", machines.view),
    Route("POST", f"{_VM}/simulateEviction", "VirtualMachines_SimulateEviction", machines.simulate_eviction),
    Route("GET", _VMS, "VirtualMachines_List", machines.in_group),
    Route("GET", f"{_COMPUTE}/virtualMachines", "VirtualMachines_ListAll", machines.in_subscription),
    Route(
        "GET",
        f"{_COMPUTE}/locations/{{location}}/virtualMachines",
        "VirtualMachines_ListByLocation",
        machines.in_location,
    ),
    Route(
        "GET", f"{_COMPUTE}/locations/{{location}}/operations/{{id}}", "Operations_Get", machines.operation
    ),
    Route("PUT", f"{_SETS}/{{name}}", "AvailabilitySets_CreateOrUpdate", sets.create),
    Route("GET", f"{_SETS}/{{name}}", "AvailabilitySets_Get", sets.get),
    Route("DELETE", f"{_SETS}/{{name}}", "AvailabilitySets_Delete", sets.delete),
    Route("GET", _SETS, "AvailabilitySets_List", sets.in_group),
    Route("GET", _DISKS, "Disks_ListByResourceGroup", disks.disks),
    Route("GET", f"{_DISKS}/{{name}}", "Disks_Get", disks.disk),
    Route("DELETE", f"{_DISKS}/{{name}}", "Disks_Delete", disks.delete_disk),
    Route("GET", _CARDS, "NetworkInterfaces_List", network.cards),
    Route("GET", f"{_CARDS}/{{name}}", "NetworkInterfaces_Get", network.card),
    Route("DELETE", f"{_CARDS}/{{name}}", "NetworkInterfaces_Delete", network.delete_card),
    Route("GET", _ADDRESSES, "PublicIPAddresses_List", network.addresses),
    Route("GET", f"{_ADDRESSES}/{{name}}", "PublicIPAddresses_Get", network.address),
    Route("DELETE", f"{_ADDRESSES}/{{name}}", "PublicIPAddresses_Delete", network.delete_address),
    Route(
        "GET",
        f"{_SUBSCRIPTION}/providers/Microsoft.Network/locations/{{location}}/usages",
        "Usages_List",
        network.location_usages,
    ),
    Route("GET", f"{_NETWORK}/virtualNetworks", "VirtualNetworks_List", network.networks),
    Route("GET", _VNET, "VirtualNetworks_Get", network.network),
    Route("GET", f"{_VNET}/usages", "VirtualNetworks_ListUsage", network.usages),
    Route("GET", f"{_VNET}/subnets/{{subnet}}", "Subnets_Get", network.subnet),
    Route(
        "GET",
        f"{_NETWORK}/networkSecurityGroups/{{name}}",
        "NetworkSecurityGroups_Get",
        network.security_group,
    ),
    Route("GET", _IMAGE, "GalleryImages_Get", images.gallery_image),
    Route("GET", f"{_IMAGE}/versions", "GalleryImageVersions_ListByGalleryImage", images.gallery_versions),
    Route("GET", f"{_IMAGE}/versions/{{version}}", "GalleryImageVersions_Get", images.gallery_version),
    Route(
        "GET",
        f"{_GROUP}/providers/Microsoft.Compute/images/{{name}}",
        "Images_Get",
        images.managed_image,
    ),
    Route("GET", _MARKET_IMAGE, "VirtualMachineImages_List", images.market_versions),
    Route("GET", f"{_MARKET_IMAGE}/{{version}}", "VirtualMachineImages_Get", images.market_version),
    Route("GET", f"{_COMPUTE}/skus", "ResourceSkus_List", market.skus),
    Route("GET", f"{_COMPUTE}/locations/{{location}}/usages", "Usage_List", market.usages),
    Route(
        "GET",
        f"{_COMPUTE}/capacityReservationGroups",
        "CapacityReservationGroups_ListBySubscription",
        reservations.groups,
    ),
    Route("GET", _RESERVED, "CapacityReservationGroups_Get", reservations.group),
    Route(
        "GET",
        f"{_RESERVED}/capacityReservations",
        "CapacityReservations_ListByCapacityReservationGroup",
        reservations.members,
    ),
    Route(
        "GET",
        f"{_RESERVED}/capacityReservations/{{reservation}}",
        "CapacityReservations_Get",
        reservations.member,
    ),
    Route(
        "POST",
        f"{_COMPUTE}/locations/{{location}}/placementScores/spot/generate",
        "SpotPlacementScores_Post",
        scores.generate,
    ),
    Route("GET", f"{_QUOTA}/quotas", "Quota_List", quota.quotas),
    Route("GET", f"{_QUOTA}/quotas/{{name}}", "Quota_Get", quota.quota),
    Route("PUT", f"{_QUOTA}/quotas/{{name}}", "Quota_CreateOrUpdate", quota.file),
    Route("GET", f"{_QUOTA}/quotaRequests", "QuotaRequestStatus_List", quota.requests),
    Route("GET", f"{_QUOTA}/quotaRequests/{{id}}", "QuotaRequestStatus_Get", quota.request),
    Route("GET", _SUBSCRIPTION, "Subscriptions_Get", account.subscription),
    Route("GET", f"{_SUBSCRIPTION}/locations", "Subscriptions_ListLocations", account.locations),
    Route("GET", f"{_SUBSCRIPTION}/providers/{{namespace}}", "Providers_Get", account.provider),
    Route(
        "POST",
        f"{_SUBSCRIPTION}/providers/{{namespace}}/register",
        "Providers_Register",
        account.provider,
    ),
    Route("GET", _GROUP, "ResourceGroups_Get", account.group),
    Route("PUT", _GROUP, "ResourceGroups_CreateOrUpdate", account.create_group),
    Route("GET", f"{_GROUP}/resources", "Resources_ListByResourceGroup", account.resources),
    Route(
        "GET",
        f"{_GROUP}/providers/Microsoft.Authorization/permissions",
        "Permissions_ListForResourceGroup",
        account.permissions,
    ),
    Route(
        "GET",
        f"{_SUBSCRIPTION}/providers/Microsoft.Authorization/permissions",
        "Permissions_ListForSubscription",
        account.permissions,
    ),
    Route(
        "GET",
        f"{_GROUP}/providers/Microsoft.Authorization/locks",
        "ManagementLocks_ListAtResourceGroupLevel",
        account.locks,
    ),
    Route("GET", _TERMS, "MarketplaceAgreements_Get", images.agreement),
    Route("PUT", _TERMS, "MarketplaceAgreements_Create", images.agreement),
    Route("POST", "/providers/Microsoft.ResourceGraph/resources", "Resources", graph.query),
    Route("GET", "/api/retail/prices", "RetailPrices_List", retail.prices, private=False),
)
