"""Credentials, images, subnets and the account's check."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.azure.adapter import AzureProvider
from providers.azure.credentials import credential
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, LaunchRequest
from sandbox.scenario import QuotaRule
from tests.clocks import FakeClock
from tests.providers.azure.bench import IMAGE, AzureBench, account
from tests.providers.azure.bench import bench as opened
from tests.sandbox.arm_server import GROUP, SUBSCRIPTION

DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def cloud_account(**credentials: str) -> AccountConfig:
    """An account of the real cloud; nothing is sent."""
    return account("http://127.0.0.1:1", credentials=credentials).model_copy(update={"endpoint": None})


# Credentials.

PRINCIPAL = {"TENANT_ID": "tenant", "CLIENT_ID": "client"}


def prefixed(**values: str) -> dict[str, str]:
    return {f"LAB_AZURE_{name}": value for name, value in (PRINCIPAL | values).items()}


@pytest.mark.parametrize(
    ("refers", "environment", "kind"),
    [
        ({"role": "client-id"}, {}, "ManagedIdentityCredential"),
        ({"environment": "LAB_"}, prefixed(CLIENT_SECRET="s"), "ClientSecretCredential"),
        ({"environment": "LAB_"}, prefixed(FEDERATED_TOKEN_FILE="/f"), "WorkloadIdentityCredential"),
        ({}, {}, "DefaultAzureCredential"),
    ],
)
def test_a_credential_is_found_where_the_settings_say(
    refers: dict[str, str], environment: dict[str, str], kind: str
) -> None:
    assert type(credential(cloud_account(**refers), environment)).__name__ == kind


@pytest.mark.parametrize(
    "content",
    [
        {"tenant": "t", "appId": "a", "password": "p"},
        {"tenantId": "t", "clientId": "a", "clientSecret": "p", "subscriptionId": "s"},
    ],
)
def test_a_credentials_file_may_have_either_form_of_the_azure_cli(
    tmp_path: Path, content: dict[str, str]
) -> None:
    path = tmp_path / "azure.json"
    path.write_text(json.dumps(content))
    assert type(credential(cloud_account(file=str(path)))).__name__ == "ClientSecretCredential"


@pytest.mark.parametrize("environment", [{}, prefixed(), {"LAB_AZURE_CLIENT_SECRET": "hush"}])
def test_a_reference_that_leads_nowhere_names_the_variables_and_no_values(
    environment: dict[str, str],
) -> None:
    with pytest.raises(ProviderError) as caught:
        credential(cloud_account(environment="LAB_"), environment)
    assert caught.value.kind is ErrorKind.AUTH
    assert "LAB_AZURE" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", '{"tenant": "t"}'])
def test_a_credentials_file_of_another_form_says_what_is_expected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "azure.json"
    path.write_text(content)
    with pytest.raises(ProviderError, match="credentials file"):
        credential(cloud_account(file=str(path)))


# The SDK.


def test_the_sdk_is_imported_on_first_use_and_the_network_sdk_never() -> None:
    code = (
        "import sys; import providers.azure.adapter; "
        "print([n for n in ('azure.core', 'azure.identity', 'httpx', 'tenacity') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


SESSION = """
import sys, threading
from clock import REAL
from providers.azure.adapter import AzureProvider
from providers.config import AccountConfig
from providers.vocabulary import CapacityType, InstanceRef, LaunchRequest, OfferKey

provider = AzureProvider(AccountConfig.model_validate_json(sys.argv[1]), REAL)
key = OfferKey("azure", "lab", "eastus", "eastus-1", "Standard_NC4as_T4_v3", CapacityType.SPOT)
asked = provider.prepare(LaunchRequest("a" * 32, key, 2, "#cloud-config", {"corral-deployment": "d"}, 30))
provider.launch(asked)
refs = [InstanceRef("eastus", "eastus-1", name) for name in asked.names()]
print(*(one.state for one in provider.describe(refs)))
print(len(provider.list_instances("eastus", "d").instances))
provider.terminate(refs)
print(threading.active_count(), "azure.mgmt.network" in sys.modules)
provider.close()
"""


def test_a_whole_session_starts_no_thread_and_imports_no_network_sdk(bench: AzureBench) -> None:
    settings = account(bench.cloud.url).model_dump_json()
    command = [sys.executable, "-W", "error", "-c", SESSION, settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["pending", "pending", "2", "1", "False"]


def test_proxies_of_the_environment_do_not_stand_before_a_local_cloud(
    bench: AzureBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert {offer.price_source for offer in bench.provider.offers("eastus").offers} == {"live"}


def test_the_settings_proxy_and_authorities_are_used_for_the_real_cloud(tmp_path: Path) -> None:
    refused = cloud_account(role="x").model_copy(update={"proxy": "http://127.0.0.1:9"})
    provider = AzureProvider(refused, FakeClock(waits_advance=True))
    client = provider._arm._client()
    policies = client._client._pipeline._impl_policies
    proxies = [getattr(policy, "_policy", policy) for policy in policies]
    assert {"http": "http://127.0.0.1:9", "https": "http://127.0.0.1:9"} in [
        getattr(policy, "proxies", None) for policy in proxies
    ]
    names = {type(policy).__name__ for policy in [*policies, *proxies]}
    assert "ARMAutoResourceProviderRegistrationPolicy" not in names
    provider.close()


# Images and subnets.


def request(bench: AzureBench) -> LaunchRequest:
    return LaunchRequest("a" * 32, bench.offer(), 1, "", {}, 20)


HPC = "microsoft-dsvm:ubuntu-hpc:2204"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        (IMAGE, f"{IMAGE}/versions/1.1.0"),
        (f"{IMAGE}/versions/1.0.0", f"{IMAGE}/versions/1.0.0"),
        (f"{HPC}:latest", f"{HPC}:22.04.2025121501"),
        (f"{HPC}:22.04.2025081801", f"{HPC}:22.04.2025081801"),
        (
            f"{GROUP_ID}/providers/Microsoft.Compute/images/corral",
            f"{GROUP_ID}/providers/Microsoft.Compute/images/corral",
        ),
    ],
)
def test_an_image_is_pinned_to_one_version_that_launches(image: str, pinned: str) -> None:
    with opened(image=image) as bench:
        prepared = bench.provider.prepare(request(bench))
        assert prepared.image == pinned
        bench.provider.launch(prepared)
        assert bench.live()["instance"] == 1


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (f"{IMAGE}/versions/9.9.9", ErrorKind.IMAGE_MISSING),
        (IMAGE.replace("images/corral", "images/other"), ErrorKind.IMAGE_MISSING),
        ("canonical:nothing:like-it:latest", ErrorKind.IMAGE_MISSING),
        (f"{HPC}:1.2.3", ErrorKind.IMAGE_MISSING),
        ("ubuntu", ErrorKind.INVALID_REQUEST),
        ("a:b:c", ErrorKind.INVALID_REQUEST),
        ("/subscriptions/x/disks/y", ErrorKind.INVALID_REQUEST),
    ],
)
def test_an_image_that_is_not_there_is_found_out_before_a_launch(image: str, kind: ErrorKind) -> None:
    with opened(image=image) as bench:
        with pytest.raises(ProviderError) as caught:
            bench.provider.prepare(request(bench))
        assert caught.value.kind is kind
        assert caught.value.scope.image is not None


def test_a_regions_own_image_comes_before_the_accounts() -> None:
    with opened(regions={"eastus": {"image": f"{HPC}:latest"}}) as bench:
        assert (bench.provider.prepare(request(bench)).image or "").startswith(HPC)


def test_no_image_at_all_says_where_to_set_one() -> None:
    with opened(image=None) as bench, pytest.raises(ProviderError, match=r"accounts\.lab\.image"):
        bench.provider.prepare(request(bench))


def test_an_image_that_the_size_cannot_boot_is_found_out_before_a_launch(bench: AzureBench) -> None:
    bench.provider.offers("eastus")
    raw = LaunchRequest(
        "a" * 32, bench.offer(size="Standard_ND128isr_NDR_GB200_v6", zone="eastus-2"), 1, "", {}, 9
    )
    with pytest.raises(ProviderError, match="image for x86_64, but the size is arm64"):
        bench.provider.prepare(raw)


def test_the_disk_is_never_smaller_than_the_image(bench: AzureBench) -> None:
    asked = bench.provider.prepare(request(bench))
    bench.provider.launch(asked)
    body = bench.cloud.vm(asked.names()[0]).extra["body"]
    assert body["properties"]["storageProfile"]["osDisk"]["diskSizeGB"] == 30


def test_the_groups_only_subnet_in_the_region_is_found(bench: AzureBench) -> None:
    asked = bench.provider.prepare(request(bench))
    assert (
        asked.subnet == f"{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/vnet-eastus/subnets/default"
    )


def test_without_a_subnet_the_error_says_which_setting_is_missing() -> None:
    with opened(resource_group="empty") as bench, pytest.raises(ProviderError) as caught:
        bench.provider.prepare(request(bench))
    assert "accounts.lab.regions.eastus.subnets" in str(caught.value)


# Check.


def lines(bench: AzureBench) -> dict[str, Any]:
    return {line.subject: line for line in bench.provider.check()}


def test_a_sound_account_passes_every_check_and_learns_its_free_quota(bench: AzureBench) -> None:
    found = lines(bench)
    assert [line for line in found.values() if not line.ok] == []
    assert found["quotas in eastus"].detail == "free vCPUs: 4000 on demand, 2400 spot"


@pytest.mark.parametrize(
    ("call", "code", "status", "subject"),
    [
        ("Subscriptions_Get", "SubscriptionNotFound", 404, f"subscription {SUBSCRIPTION}"),
        ("Providers_Get", "AuthorizationFailed", 403, "Microsoft.Compute"),
        ("ResourceGroups_Get", "ResourceGroupNotFound", 404, "resource group sandbox"),
        ("Permissions_ListForResourceGroup", "AuthorizationFailed", 403, "permissions"),
        ("GalleryImages_Get", "ImageNotFound", 404, "image in eastus"),
        ("Subnets_Get", "ResourceNotFound", 404, "subnet in eastus"),
        ("Subscriptions_ListLocations", "AuthorizationFailed", 403, "region eastus"),
        ("Usage_List", "AuthorizationFailed", 403, "quotas in eastus"),
        ("ResourceSkus_List", "AuthorizationFailed", 403, "sizes in eastus"),
        ("ManagementLocks_List*", "AuthorizationFailed", 403, "locks on resource group sandbox"),
        ("Permissions_ListForSubscription", "AuthorizationFailed", 403, "permissions on the subscription"),
        ("VirtualNetworks_Get", "ResourceNotFound", 404, "subnet in eastus"),
    ],
)
def test_what_is_wrong_is_named_and_the_rest_is_still_looked_at(
    bench: AzureBench, call: str, code: str, status: int, subject: str
) -> None:
    bench.cloud.fault(call, "error", code=code, http_status=status)
    wrong = [line for line in bench.provider.check() if not line.ok]
    assert [line.subject for line in wrong] == [subject]
    assert code in wrong[0].detail


@pytest.mark.parametrize(
    ("call", "shown", "subject", "said"),
    [
        ("Providers_Get", "NotRegistered", "Microsoft.Compute", "machines"),
        ("ManagementLocks_List*", "CanNotDelete", "locks on resource group sandbox", "keep (CanNotDelete)"),
        ("VirtualNetworks_ListUsage", "0", "subnet in eastus", "no free address"),
        ("Subnets_Get", "delegated", "subnet in eastus", "another service"),
    ],
)
def test_a_state_in_which_nothing_could_be_launched_or_ended_is_a_failure_with_what_mends_it(
    bench: AzureBench, call: str, shown: str, subject: str, said: str
) -> None:
    bench.cloud.fault(call, "state", value=shown)
    wrong = [line for line in bench.provider.check() if not line.ok]
    assert [line.subject for line in wrong] == [subject]
    assert said in wrong[0].detail
    assert wrong[0].remedy


@pytest.mark.parametrize(
    ("call", "denied", "subject"),
    [
        ("Permissions_ListForResourceGroup", "Microsoft.Compute/*/delete", "permissions"),
        ("Permissions_ListForSubscription", "Microsoft.Compute/skus/read", "permissions on the subscription"),
    ],
)
def test_actions_that_are_denied_are_named(bench: AzureBench, call: str, denied: str, subject: str) -> None:
    bench.cloud.fault(call, "state", value=denied)
    wrong = [line for line in bench.provider.check() if not line.ok]
    assert [line.subject for line in wrong] == [subject]
    assert denied.rpartition("/")[2] in wrong[0].detail
    assert "docs/azure.md" in wrong[0].remedy


def test_actions_that_a_team_may_do_without_are_told_with_what_they_are_for(bench: AzureBench) -> None:
    bench.cloud.fault("Permissions_ListForSubscription", "state", value="Microsoft.Quota/*")
    line = lines(bench)["permissions on the subscription"]
    assert line.ok
    assert "not possible: asking for more quota (Microsoft.Quota/quotas/read" in line.detail


def test_what_quota_requests_and_evictions_need_is_looked_at_too(bench: AzureBench) -> None:
    match = {"namespace": "Microsoft.Quota"}
    bench.cloud.fault("Providers_Get", "state", value="NotRegistered", match=match)
    wrong = [line for line in bench.provider.check() if not line.ok]
    assert [line.subject for line in wrong] == ["Microsoft.Quota"]
    assert "requests for more quota" in wrong[0].detail
    assert wrong[0].remedy == "az provider register --namespace Microsoft.Quota"


@pytest.mark.parametrize(
    ("shown", "ok", "said"),
    [("", True, "default outbound"), ("nat", True, "natGateways"), ("private", False, "has none")],
)
def test_machines_without_an_address_need_a_way_out_of_their_subnet(shown: str, ok: bool, said: str) -> None:
    with opened(regions={"eastus": {"public_address": False}}) as bench:
        if shown:
            bench.cloud.fault("Subnets_Get", "state", value=shown, times=None)
        line = lines(bench)["way out of eastus"]
        assert (line.ok, said in line.detail) == (ok, True)
        assert ok or "NAT gateway" in line.remedy


def test_a_subnet_in_another_region_is_pointed_out() -> None:
    abroad = f"{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/vnet-westus3/subnets/default"
    with opened(regions={"eastus": {"subnets": [abroad]}}) as bench:
        assert "is in westus3" in lines(bench)["subnet in eastus"].detail


def test_a_zone_that_the_region_does_not_have_is_pointed_out() -> None:
    with opened(regions={"eastus": {"zones": ["eastus-1", "4"]}}) as bench:
        assert "no zone 4; there are 1, 2, 3" in lines(bench)["region eastus"].detail
    with opened(regions={"eastus": {"zones": ["eastus", "2"]}}) as bench:
        assert lines(bench)["region eastus"].ok


def test_sizes_that_are_closed_to_the_subscription_are_named() -> None:
    with opened(regions={"westeurope": {}}) as bench:
        detail = lines(bench)["sizes in westeurope"].detail
        assert detail.startswith("12 on offer, 11 of them with GPUs; closed to this subscription:")
        assert "Standard_ND96isr_H200_v5" in detail
    with opened(regions={"westeurope": {}}, allowed_types=["Standard_ND96isr_H200_v5"]) as bench:
        assert not lines(bench)["sizes in westeurope"].ok
    with opened(allowed_types=["Standard_NC4as_T4"]) as bench:
        assert "not known here: Standard_NC4as_T4" in lines(bench)["sizes in eastus"].detail


def test_terms_of_a_marketplace_image_must_have_been_accepted() -> None:
    with opened(image="acme:gpu-desktop:pro:latest") as bench:
        line = lines(bench)["image in eastus"]
        assert not line.ok
        assert "az vm image terms accept --publisher acme --offer gpu-desktop --plan pro" in line.detail
        asked = bench.provider.prepare(request(bench))
        with pytest.raises(ProviderError) as caught:
            bench.provider.launch(asked)
        assert (caught.value.kind, caught.value.scope.image) == (ErrorKind.IMAGE_MISSING, asked.image)
        bench.cloud_terms_accepted()
        assert lines(bench)["image in eastus"].ok
        bench.provider.launch(asked)
        assert bench.live()["instance"] == 1


def test_an_image_that_some_sizes_cannot_boot_says_which(bench: AzureBench) -> None:
    assert "no boot on Standard_ND128isr_NDR_GB200_v6" in lines(bench)["image in eastus"].detail


def test_it_is_said_that_a_stopped_machine_is_billed(bench: AzureBench) -> None:
    assert "billed" in lines(bench)["a machine that powers itself off"].detail


def test_a_region_that_does_not_exist_is_pointed_out() -> None:
    with opened(regions={"marseast": {}}) as bench:
        assert "there are eastus, westeurope" in lines(bench)["region marseast"].detail


def test_a_quota_that_is_too_low_is_named_beside_what_is_free(bench: AzureBench) -> None:
    bench.limit_quota(bench.offer(SPOT), 3)
    bench.limit_quota(bench.offer(DEMAND), 0)
    line = lines(bench)["quotas in eastus"]
    assert line.ok
    assert line.detail == (
        "free vCPUs: 4000 on demand, 3 spot; too low for some sizes: StandardNCADSA100v4Family 0, "
        "lowPriorityCores 3"
    )


def test_quotas_that_leave_no_gpu_are_a_failure_with_what_to_ask_for(bench: AzureBench) -> None:
    bench.limit_quota(bench.offer(SPOT), 3)
    bench.cloud.world.set_quota(QuotaRule(provider="azure", region="eastus", name="[Ss]tandard*", limit=0))
    bench.cloud.world.set_quota(
        QuotaRule(provider="azure", region="eastus", name="standardDSv5Family", limit=99)
    )
    found = lines(bench)
    assert [line.subject for line in found.values() if not line.ok] == ["quotas in eastus"]
    line = found["quotas in eastus"]
    assert "lowPriorityCores 3" in line.detail
    assert "standardNDSH100v5Family 0" in line.detail
    assert "Quotas, Compute" in line.remedy
    bench.limit_quota(bench.offer(SPOT), 4)
    assert lines(bench)["quotas in eastus"].ok


def test_a_card_takes_one_security_group() -> None:
    group = f"{GROUP_ID}/providers/Microsoft.Network/networkSecurityGroups/nsg-eastus"
    with opened(regions={"eastus": {"security_groups": [group]}}) as bench:
        assert lines(bench)["security group in eastus"].ok
    with opened(regions={"eastus": {"security_groups": [group, group]}}) as bench:
        assert not lines(bench)["security group in eastus"].ok


def test_without_a_credential_there_is_one_line_and_no_call() -> None:
    config = cloud_account(environment="NOWHERE_")
    found = AzureProvider(config, FakeClock(waits_advance=True)).check()
    assert [(line.subject, line.ok) for line in found] == [("credentials", False)]
