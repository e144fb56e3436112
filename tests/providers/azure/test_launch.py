"""Launching on Azure: one create per node under its name, adopted if it is there, all nodes or none."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from providers.azure.adapter import AzureProvider
from providers.azure.leftovers import everything, orphans
from providers.azure.operations import address, handle
from providers.azure.vm import frozen
from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, EndReason, InstanceState, LaunchRequest, Scope
from sandbox.scenario import CapacityRule, Restore
from tests.providers.azure.bench import IMAGE, SIZE, AzureBench, account
from tests.providers.azure.bench import bench as opened

CREATE = "VirtualMachines_CreateOrUpdate"
DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def refused(bench: AzureBench, asked: LaunchRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    return caught.value


def test_a_spot_machine_takes_everything_of_its_own_with_it(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.provider.launch(asked)
    body = bench.cloud.vm(asked.names()[0]).extra["body"]
    facts = body["properties"]
    assert (facts["priority"], facts["evictionPolicy"], facts["billingProfile"]) == (
        "Spot",
        "Delete",
        {"maxPrice": -1},
    )
    card = facts["networkProfile"]["networkInterfaceConfigurations"][0]
    address = card["properties"]["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]
    kept = [facts["storageProfile"]["osDisk"], card["properties"], address["properties"]]
    assert [part["deleteOption"] for part in kept] == ["Delete"] * 3
    assert body["zones"] == ["1"]
    for tags in (body["tags"], card["tags"], address["tags"]):
        assert asked.tags.items() <= tags.items()
        assert tags["corral-token"] == asked.token
    assert base64.b64decode(facts["osProfile"]["customData"]).decode() == asked.user_data


def test_a_limit_on_the_price_is_given_to_azure(bench: AzureBench) -> None:
    asked = replace(bench.ask(), max_price=1000.123456)
    bench.provider.launch(asked)
    facts = bench.cloud.vm(asked.names()[0]).extra["body"]["properties"]
    assert facts["billingProfile"] == {"maxPrice": 1000.12346}
    assert refused(bench, replace(asked, token="e" * 32, max_price=0.01)).kind is ErrorKind.PRICE_TOO_LOW


def test_an_on_demand_machine_without_a_zone_says_nothing_of_spot_or_zones(bench: AzureBench) -> None:
    asked = bench.ask(bench.offer(DEMAND, "eastus"))
    bench.provider.launch(asked)
    body = bench.cloud.vm(asked.names()[0]).extra["body"]
    assert "zones" not in body
    assert body["properties"]["priority"] == "Regular"
    assert not {"evictionPolicy", "billingProfile"} & body["properties"].keys()


def test_a_region_without_public_addresses_makes_none() -> None:
    regions = {"eastus": {"public_address": False, "security_groups": ["/nsg"], "instance_role": "/identity"}}
    with opened(regions=regions) as bench:
        asked = bench.ask()
        bench.provider.launch(asked)
        body = bench.cloud.vm(asked.names()[0]).extra["body"]
        assert bench.live()["address"] == 0
        card = body["properties"]["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
        assert card["networkSecurityGroup"] == {"id": "/nsg"}
        assert body["identity"] == {"type": "UserAssigned", "userAssignedIdentities": {"/identity": {}}}


def test_IDE_01_a_timeout_after_the_effect_is_in_doubt_and_find_shows_the_machine(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.cloud.fault(CREATE, "drop_reply")
    error = refused(bench, asked)
    assert error.ambiguous
    assert error.kind is ErrorKind.TRANSIENT
    found = bench.provider.find(asked)
    assert found.complete
    assert [one.provider_id for one in found.instances] == list(asked.names())


def test_IDE_01_a_resend_makes_no_second_machine_and_adopts_the_first(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.cloud.fault(CREATE, "drop_reply")
    refused(bench, asked)
    first = bench.cloud.vm(asked.names()[0]).id
    # As after a restart of the service, with other settings: what was asked for is frozen in the request.
    changed = account(bench.cloud.url, regions={"eastus": {"public_address": False}})
    again = AzureProvider(changed, bench.cloud.clock)
    launched = again.launch(asked)
    assert [one.provider_id for one in launched.instances] == list(asked.names())
    assert bench.cloud.vm(asked.names()[0]).id == first
    assert bench.cloud.world.ledger()["objects"]["instance"]["made"] == 1
    again.close()


def test_the_same_request_from_several_threads_makes_one_machine_per_node(bench: AzureBench) -> None:
    asked = bench.ask(nodes=2)
    others = [AzureProvider(account(bench.cloud.url), bench.cloud.clock) for _ in range(2)]
    callers = [bench.provider, bench.provider, *others]
    with ThreadPoolExecutor(4) as pool:
        launched = list(pool.map(lambda provider: provider.launch(asked), callers))
    for other in others:
        other.close()
    assert {tuple(one.provider_id for one in each.instances) for each in launched} == {asked.names()}
    assert bench.cloud.world.ledger()["objects"]["instance"] == {"made": 2, "live": 2}


def test_a_create_is_sent_once_whatever_the_answer(bench: AzureBench) -> None:
    for number, status in enumerate((500, 503, 409, 429)):
        bench.cloud.fault(CREATE, "error", code="Nope", http_status=status, retry_after=1, times=None)
        before = bench.cloud.calls().get(CREATE, 0)
        refused(bench, bench.ask(name=str(number)))
        assert bench.cloud.calls()[CREATE] == before + 1
        bench.cloud.world.restore(Restore.model_validate({"do": "restore", "at": 0, "what": ["fault"]}))
    assert bench.live()["instance"] == 0


def test_a_missing_registration_is_an_answer_and_registers_nothing(bench: AzureBench) -> None:
    code = "MissingSubscriptionRegistration"
    bench.cloud.fault("*", "error", code=code, http_status=409, times=2)
    assert refused(bench, _unsent(bench)).kind is ErrorKind.ACCOUNT_BLOCKED
    with pytest.raises(ProviderError, match=code):
        bench.provider.list_instances("eastus", "d1")
    assert "Providers_Register" not in bench.cloud.calls()


def _unsent(bench: AzureBench) -> LaunchRequest:
    """A prepared request, made without a call."""
    extra = {"ssh_public_key": "ssh-rsa AAAA", **frozen(RegionConfig())}
    return replace(
        LaunchRequest("f" * 32, bench.offer(), 1, "", {}, 30), image=IMAGE, subnet="/s", extra=extra
    )


def test_IDE_09_the_name_of_somebody_elses_machine_is_neither_adopted_nor_touched(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.provider.launch(asked)
    vm = bench.cloud.vm(asked.names()[0])
    vm.tags["corral-token"] = "0" * 32
    other = AzureProvider(account(bench.cloud.url), bench.cloud.clock)
    with pytest.raises(ProviderError) as caught:
        other.launch(asked)
    other.close()
    assert caught.value.kind is ErrorKind.CONFLICT
    assert not caught.value.ambiguous
    assert vm.state == "pending"


def test_a_machine_that_is_going_ends_the_attempt_instead_of_being_adopted(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.provider.launch(asked)
    bench.cloud.world.terminate(bench.cloud.vm(asked.names()[0]))
    restarted = AzureProvider(account(bench.cloud.url), bench.cloud.clock)
    with pytest.raises(ProviderError) as caught:
        restarted.launch(asked)
    restarted.close()
    assert caught.value.kind is ErrorKind.IDEMPOTENCY
    assert caught.value.ended


def test_what_was_evicted_before_anybody_heard_of_it_is_found_to_be_over(bench: AzureBench) -> None:
    asked = bench.ask(nodes=2)
    bench.cloud.fault(CREATE, "drop_reply", skip=1)
    refused(bench, asked)
    for name in asked.names():
        bench.cloud.world.preempt(bench.cloud.vm(name), notice=False)
    bench.advance(60)
    restarted = AzureProvider(account(bench.cloud.url), bench.cloud.clock)
    found = restarted.find(asked)
    restarted.close()
    assert found.complete
    assert [(one.state, one.end_reason, one.node) for one in found.instances] == [
        (InstanceState.TERMINATED, EndReason.PREEMPTED, 0),
        (InstanceState.TERMINATED, EndReason.PREEMPTED, 1),
    ]


def test_what_we_ended_is_found_to_be_over_and_never_sent_again(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.provider.launch(asked)
    bench.provider.terminate(bench.refs(asked))
    bench.advance(60)
    assert [one.state for one in bench.provider.find(asked).instances] == [InstanceState.TERMINATED]
    error = refused(bench, asked)
    assert (error.kind, error.ended) == (ErrorKind.IDEMPOTENCY, True)
    assert bench.cloud.calls()[CREATE] == 1


def test_an_adopted_create_that_goes_on_still_has_a_handle(bench: AzureBench) -> None:
    key = bench.offer(DEMAND)
    bench.exhaust(key)
    asked = bench.ask(key)
    bench.cloud.fault(CREATE, "drop_reply")
    refused(bench, asked)
    adopted = bench.provider.launch(asked)
    assert adopted.operation is not None
    bench.advance(30)
    error = bench.provider.describe(bench.refs(asked, adopted))[0].error
    assert isinstance(error, ProviderError)
    assert error.code == "ZonalAllocationFailed"


def test_a_handle_tells_nodes_apart_and_has_its_limit() -> None:
    urls = {node: f"https://management.azure.com/{node}/" + "x" * 1000 for node in range(8)}
    text = handle(urls)
    assert text is not None
    assert len(text) <= 4096
    assert [address(text, node) for node in range(8)] == [*(urls[node] for node in range(3)), *[None] * 5]
    assert address(handle({1: "https://a", 11: "https://b"}), 11) == "https://b"
    assert handle({}) is None
    assert address("https://old-form", 0) is None


def test_a_gang_whose_second_node_is_refused_leaves_nothing(bench: AzureBench) -> None:
    bench.exhaust(bench.offer(), leave=1)
    asked = bench.ask(nodes=2)
    error = refused(bench, asked)
    assert error.kind is ErrorKind.CAPACITY
    assert not error.ambiguous
    bench.advance(60)
    assert set(bench.live().values()) == {0}
    assert bench.cloud.world.ledger()["objects"]["instance"]["made"] == 1


def test_a_gang_that_cannot_be_withdrawn_says_that_something_may_be_left(bench: AzureBench) -> None:
    bench.exhaust(bench.offer(), leave=1)
    bench.cloud.fault("VirtualMachines_Delete", "error", code="InternalServerError", http_status=500)
    asked = bench.ask(nodes=2)
    error = refused(bench, asked)
    assert error.kind is ErrorKind.CAPACITY
    assert error.ambiguous
    assert len(bench.provider.find(asked).instances) == 1


def test_a_gang_in_doubt_is_left_for_find_and_a_resend_completes_it(bench: AzureBench) -> None:
    asked = bench.ask(nodes=3)
    bench.cloud.fault(CREATE, "drop_reply", skip=1)
    assert refused(bench, asked).ambiguous
    assert len(bench.provider.find(asked).instances) == 2
    launched = bench.provider.launch(asked)
    assert [one.node for one in launched.instances] == [0, 1, 2]
    assert bench.cloud.world.ledger()["objects"]["instance"]["made"] == 3


def test_PRO_06_an_async_shortage_arrives_through_describe_and_its_carcass_is_removed(
    bench: AzureBench,
) -> None:
    key = bench.offer(DEMAND)
    bench.exhaust(key)
    asked = bench.ask(key)
    launched = bench.provider.launch(asked)
    refs = bench.refs(asked, launched)
    assert bench.provider.describe(refs)[0].state is InstanceState.PENDING
    bench.advance(30)
    seen = bench.provider.describe(refs)[0]
    assert seen.state is InstanceState.STOPPED
    error = seen.error
    assert isinstance(error, ProviderError)
    assert (error.kind, error.code) == (ErrorKind.CAPACITY, "ZonalAllocationFailed")
    assert error.scope == Scope("azure", "lab", "eastus", "eastus-1", key.instance_type)
    assert "sufficient capacity" in error.message
    assert [one.provider_id for one in bench.provider.list_instances("eastus", "d1").instances] == [
        refs[0].provider_id
    ]
    bench.provider.terminate(refs)
    over = bench.provider.describe(refs)[0]
    assert (over.state, over.error) == (InstanceState.TERMINATED, None)
    assert bench.provider.list_instances("eastus", "d1").instances == ()


def test_FAI_08_a_shortage_without_a_zone_says_nothing_of_the_zones(bench: AzureBench) -> None:
    key = bench.offer(DEMAND, "eastus")
    bench.exhaust(key)
    asked = bench.ask(key)
    bench.provider.launch(asked)
    bench.advance(30)
    error = bench.provider.describe(bench.refs(asked))[0].error
    assert isinstance(error, ProviderError)
    assert (error.code, error.scope.zone) == ("AllocationFailed", "eastus")
    bench.provider.launch(bench.ask(bench.offer(DEMAND, "eastus-2"), name="b"))
    assert bench.live()["instance"] == 1


def test_spot_quota_speaks_of_all_spot_in_the_region_and_of_nothing_on_demand(bench: AzureBench) -> None:
    bench.limit_quota(bench.offer(), 0)
    error = refused(bench, bench.ask())
    assert error.kind is ErrorKind.QUOTA
    assert error.scope == Scope("azure", "lab", "eastus", capacity_type=SPOT)
    bench.provider.launch(bench.ask(bench.offer(DEMAND), name="b"))


def test_family_quota_speaks_of_the_family_as_offers_name_it(bench: AzureBench) -> None:
    key = bench.offer(DEMAND, size="Standard_NC4as_T4_v3")
    bench.limit_quota(key, 2)
    error = refused(bench, bench.ask(key))
    offers = bench.provider.offers("eastus").offers
    covered = {offer.key.instance_type for offer in offers if error.scope.covers(offer)}
    assert covered == {"Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC64as_T4_v3"}


def test_a_throttle_in_the_clothes_of_a_refusal_carries_its_wait(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.cloud.fault(CREATE, "throttle", retry_after=1200)
    error = refused(bench, asked)
    assert (error.kind, error.code, error.retry_after) == (ErrorKind.THROTTLED, "TooManyRequests", 1200)
    assert not error.ambiguous


def test_FAI_14_a_full_subnet_is_passed_over_where_there_is_another() -> None:
    one, two = "/subscriptions/x/subnets/one", "/subscriptions/x/subnets/two"
    with opened(regions={"eastus": {"subnets": [one, two]}}) as bench:
        asked = bench.ask()
        assert asked.subnet == one
        bench.cloud.fault(CREATE, "error", code="SubnetIsFull", http_status=400, message="no addresses left")
        error = refused(bench, asked)
        assert (error.kind, error.scope.subnet) == (ErrorKind.CAPACITY, one)
        assert bench.ask(name="b").subnet == two
        bench.advance(700)
        assert bench.ask(name="c").subnet == one


def test_a_full_subnet_closes_the_region_where_there_is_no_other(bench: AzureBench) -> None:
    asked = bench.ask()
    bench.cloud.fault(CREATE, "error", code="SubnetIsFull", http_status=400, message="no addresses left")
    error = refused(bench, asked)
    assert error.scope == Scope("azure", "lab", "eastus")


def test_a_refusal_of_the_size_itself_reads_the_sizes_anew(bench: AzureBench) -> None:
    bench.provider.offers("eastus")
    bench.provider.offers("eastus")
    assert bench.cloud.calls()["ResourceSkus_List"] == 1
    rule = {"provider": "azure", "zone": "eastus-1", "capacity_type": "spot", "count": 0}
    bench.cloud.world.set_capacity(CapacityRule.model_validate(rule))
    refused(bench, bench.ask())
    bench.provider.offers("eastus")
    assert bench.cloud.calls()["ResourceSkus_List"] == 2


def test_a_request_that_was_not_prepared_is_not_sent(bench: AzureBench) -> None:
    raw = LaunchRequest("a" * 32, bench.offer(), 1, "", {}, 30)
    assert refused(bench, raw).kind is ErrorKind.INVALID_REQUEST
    assert CREATE not in bench.cloud.calls()


@pytest.mark.parametrize("over", [1, 300_000])
def test_PRO_09_user_data_over_the_limit_is_refused_with_limit_and_size_before_anything_is_asked(
    bench: AzureBench, over: int
) -> None:
    at_most = "é" * 32_767 + "x"
    assert bench.provider.prepare(replace(raw(bench), user_data=at_most)).user_data == at_most
    before = bench.cloud.calls()
    with pytest.raises(ProviderError, match=rf"{65_535 + over} bytes.*65535") as caught:
        bench.provider.prepare(replace(raw(bench), user_data=at_most + "x" * over))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert bench.cloud.calls() == before


@pytest.mark.parametrize(
    "tags", [{f"k{number}": "v" for number in range(46)}, {f"k{number}": "v" * 60 for number in range(30)}]
)
def test_more_tags_than_a_machine_may_have_are_refused_before_anything_is_asked(
    bench: AzureBench, tags: dict[str, str]
) -> None:
    with pytest.raises(ProviderError, match="tags") as caught:
        bench.provider.prepare(replace(raw(bench), tags=tags))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert bench.cloud.calls() == {}


def raw(bench: AzureBench) -> LaunchRequest:
    return LaunchRequest("d" * 32, bench.offer(), 1, "", {}, 20)


@pytest.mark.parametrize(
    ("size", "nodes"), [(SIZE, 1), ("Standard_ND96isr_H100_v5", 1), ("Standard_ND96isr_H100_v5", 4)]
)
def test_PRI_10_the_limit_on_the_price_is_per_machine_whatever_it_holds(
    bench: AzureBench, size: str, nodes: int
) -> None:
    asked = replace(bench.ask(bench.offer(size=size), nodes=nodes), max_price=99.5)
    bench.provider.launch(asked)
    for name in asked.names():
        facts = bench.cloud.vm(name).extra["body"]["properties"]
        assert facts["billingProfile"] == {"maxPrice": 99.5}


def test_PRO_03_a_machine_and_all_of_it_can_be_found_without_a_second_call(bench: AzureBench) -> None:
    asked = bench.ask()
    before = bench.cloud.calls()
    bench.provider.launch(asked)
    calls = {name: count - before.get(name, 0) for name, count in bench.cloud.calls().items()}
    assert {name.partition("/")[0] for name, count in calls.items() if count} == {CREATE}
    assert calls[CREATE] == 1
    rows = everything(bench.provider._arm)
    assert {str(row["type"]).rpartition("/")[2] for row in rows} == {
        "virtualMachines",
        "networkInterfaces",
        "publicIPAddresses",
        "disks",
    }
    (vm,) = orphans(rows, "eastus", "d1", [])
    assert (vm.vm, len(vm.ids)) == (asked.names()[0], 3)


def test_FAI_05_a_zonal_shortage_is_asked_for_once_and_closes_that_zone_alone(bench: AzureBench) -> None:
    key = bench.offer(DEMAND)
    bench.exhaust(key)
    asked = bench.ask(key)
    refs = bench.refs(asked, bench.provider.launch(asked))
    bench.advance(30)
    error = bench.provider.describe(refs)[0].error
    assert isinstance(error, ProviderError)
    assert (error.kind, error.retry_after) == (ErrorKind.CAPACITY, None)
    assert bench.cloud.calls()[CREATE] == 1
    shut = {offer.key.zone for offer in bench.provider.offers("eastus").offers if error.scope.covers(offer)}
    assert shut == {"eastus-1"}


def test_PLA_06_a_zone_means_another_place_in_another_subscription(bench: AzureBench) -> None:
    key = bench.offer(DEMAND)
    bench.exhaust(key)
    asked = bench.ask(key)
    refs = bench.refs(asked, bench.provider.launch(asked))
    bench.advance(30)
    error = bench.provider.describe(refs)[0].error
    assert isinstance(error, ProviderError)
    mine = next(offer for offer in bench.provider.offers("eastus").offers if offer.key == key)
    assert error.scope.covers(mine)
    assert not error.scope.covers(replace(mine, key=replace(key, account="another")))


def test_AUT_03_a_create_whose_token_ran_out_is_sent_with_a_new_one_and_makes_one_machine(
    bench: AzureBench,
) -> None:
    asked = bench.ask()
    bench.cloud.fault(CREATE, "error", code="ExpiredAuthenticationToken", http_status=401)
    bench.provider.launch(asked)
    assert bench.live()["instance"] == 1
    bench.cloud.fault("VirtualMachines_Delete", "error", code="ExpiredAuthenticationToken", http_status=401)
    bench.provider.terminate(bench.refs(asked))
    bench.advance(60)
    assert bench.live()["instance"] == 0


def test_an_unreachable_cloud_is_not_in_doubt_since_nothing_was_sent(bench: AzureBench) -> None:
    asked = bench.ask()
    nobody: AccountConfig = account("http://127.0.0.1:9")
    lost = AzureProvider(nobody, bench.cloud.clock)
    with pytest.raises(ProviderError) as caught:
        lost.launch(asked)
    lost.close()
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert not caught.value.ambiguous
