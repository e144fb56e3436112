"""What is sent to create instances, and what becomes of it when the wire or the cloud fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp.adapter import GcpProvider
from providers.gcp.launch_body import FINGERPRINT, request_id_of
from providers.vocabulary import CapacityType, InstanceState, LaunchRequest, OfferKey
from sandbox.quotas import GLOBAL
from sandbox.scenario import QuotaRule
from sandbox.vm import Vm
from tests.providers.contract import DEPLOYMENT, refs_of, refusal, request, settle, start
from tests.providers.gcp.bench import REGION, GceBench, account

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def asked(
    bench: GceBench,
    name: str = "job",
    instance_type: str = "g2-standard-8",
    how: CapacityType = SPOT,
    nodes: int = 1,
) -> LaunchRequest:
    """A prepared request for the first zone that sells it so."""
    offers = bench.provider.offers(REGION).offers
    offer = next(o for o in offers if o.key.instance_type == instance_type and o.key.capacity_type is how)
    return request(offer, name, nodes=nodes, prepared_by=bench.provider)


def made(bench: GceBench, wanted: LaunchRequest) -> Vm:
    start(bench, wanted)
    return bench.vm(wanted.names()[0])


# The body


def test_spot_is_deleted_when_it_is_reclaimed_and_never_restarted(bench: GceBench) -> None:
    scheduling = made(bench, asked(bench)).extra["scheduling"]
    assert scheduling["provisioningModel"] == "SPOT"
    assert scheduling["instanceTerminationAction"] == "DELETE"
    assert scheduling["automaticRestart"] is False
    assert scheduling["onHostMaintenance"] == "TERMINATE"


def test_on_demand_is_not_restarted_behind_our_back_either(bench: GceBench) -> None:
    scheduling = made(bench, asked(bench, how=ON_DEMAND)).extra["scheduling"]
    assert scheduling["provisioningModel"] == "STANDARD"
    assert scheduling["automaticRestart"] is False
    assert "instanceTerminationAction" not in scheduling


@pytest.mark.parametrize("how", [SPOT, ON_DEMAND])
def test_the_cloud_ends_it_at_its_maximum_age(bench: GceBench, how: CapacityType) -> None:
    wanted = replace(asked(bench, how=how), max_age_seconds=3600)
    refs = start(bench, wanted)
    bench.advance(3700)
    seen = bench.provider.describe(refs)[0]
    assert seen.state is InstanceState.TERMINATED
    assert bench.live()["instance"] == 0


def test_no_launch_takes_capacity_that_somebody_reserved(bench: GceBench) -> None:
    vm = made(bench, asked(bench, how=ON_DEMAND))
    assert vm.extra["reservation_affinity"] == {"consumeReservationType": "NO_RESERVATION"}


def test_the_disk_carries_our_labels_and_goes_with_the_instance(bench: GceBench) -> None:
    wanted = asked(bench)
    disk = made(bench, wanted).extra["disk"]
    assert disk["auto_delete"]
    assert wanted.tags.items() <= disk["labels"].items()
    assert disk["size_gb"] == 50


def test_the_disk_is_never_smaller_than_its_image(bench: GceBench) -> None:
    small = replace(asked(bench), disk_gib=5)
    prepared = bench.provider.prepare(replace(small, image=None, extra={}))
    assert made(bench, prepared).extra["disk"]["size_gb"] == 20


@pytest.mark.parametrize(
    ("instance_type", "disk_type"),
    [
        ("g2-standard-8", "pd-balanced"),
        ("a2-highgpu-1g", "pd-balanced"),
        ("a3-highgpu-1g", "pd-balanced"),
        ("a3-ultragpu-8g", "hyperdisk-balanced"),
        ("a4-highgpu-8g", "hyperdisk-balanced"),
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_each_family_gets_a_disk_it_can_boot_from(
    bench: GceBench, instance_type: str, disk_type: str, nodes: int
) -> None:
    assert made(bench, asked(bench, "disk", instance_type, nodes=nodes)).extra["disk"]["type"] == disk_type


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_gpu_that_is_attached_to_n1_is_asked_for(bench: GceBench, nodes: int) -> None:
    wanted = asked(bench, "t4", "n1-standard-4+nvidia-tesla-t4x1", nodes=nodes)
    refs = start(bench, wanted)
    assert bench.provider.describe(refs)[0].instance_type == "n1-standard-4+nvidia-tesla-t4x1"


def test_settings_of_the_region_shape_the_instance(bench: GceBench) -> None:
    role = "runner@sandbox-project.iam.gserviceaccount.com"
    region = {
        "subnets": ["training"],
        "security_groups": ["gpu", "no-ingress"],
        "public_address": False,
        "instance_role": role,
    }
    bench.provider.close()
    bench.provider = GcpProvider(account(bench.gce.url, regions={REGION: region}), bench.gce.clock)
    vm = made(bench, asked(bench))
    assert vm.extra["subnet"] == "training"
    assert vm.extra["network_tags"] == ["gpu", "no-ingress"]
    assert vm.public_ip is None
    assert [entry["email"] for entry in vm.extra["service_accounts"]] == [role]


def test_a_prepared_request_does_not_change_with_the_settings(bench: GceBench) -> None:
    wanted = asked(bench)
    changed = GcpProvider(
        account(bench.gce.url, regions={REGION: {"subnets": ["training"]}}), bench.gce.clock
    )
    changed.launch(wanted)
    changed.close()
    assert bench.vm(wanted.names()[0]).extra["subnet"] == "default"


def test_a_family_is_pinned_to_the_image_it_stood_for(bench: GceBench) -> None:
    assert asked(bench).image == "projects/sandbox-project/global/images/corral-20260901"


def test_several_subnetworks_are_used_in_turn_but_by_one_token_always_the_same(bench: GceBench) -> None:
    several = account(bench.gce.url, regions={REGION: {"subnets": ["default", "training"]}})
    provider = GcpProvider(several, bench.gce.clock)
    offer = next(o for o in provider.offers(REGION).offers if o.key.instance_type == "g2-standard-8")
    subnets = [request(offer, f"n{i}", prepared_by=provider).subnet for i in range(20)]
    assert len(set(subnets)) == 2
    assert subnets == [request(offer, f"n{i}", prepared_by=provider).subnet for i in range(20)]
    provider.close()


# The wire


def test_IDE_02_a_reply_that_comes_too_late_makes_no_second_instance(bench: GceBench) -> None:
    wanted = asked(bench)
    impatient = GcpProvider(account(bench.gce.url), bench.gce.clock, write_timeout=0.2)
    bench.gce.fault("instances.insert", "hang")
    with pytest.raises(ProviderError) as caught:
        impatient.launch(wanted)
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert caught.value.ambiguous
    # Another process, after a restart: the same request is answered by the operation of the first.
    again = bench.provider.launch(wanted)
    settle(bench)
    assert [i.provider_id for i in bench.provider.find(wanted).instances] == [again.instances[0].provider_id]
    assert len(bench.gce.vms()) == 1
    impatient.close()


def test_a_lost_reply_is_found_while_the_instance_is_still_being_made(bench: GceBench) -> None:
    wanted = asked(bench)
    bench.drop_next_reply()
    with pytest.raises(ProviderError):
        bench.provider.launch(wanted)
    assert [i.state for i in bench.provider.find(wanted).instances] == [InstanceState.PENDING]


def test_a_lost_reply_of_a_gang_is_found_whole(bench: GceBench) -> None:
    wanted = asked(bench, nodes=3)
    bench.gce.fault("instances.bulkInsert", "drop_reply")
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(wanted)
    assert caught.value.ambiguous
    settle(bench)
    assert [i.node for i in bench.provider.find(wanted).instances] == [0, 1, 2]
    bench.provider.launch(wanted)
    assert len(bench.gce.vms()) == 3


def test_a_connection_that_is_refused_was_never_sent(bench: GceBench) -> None:
    wanted = asked(bench)
    nowhere = GcpProvider(account("http://127.0.0.1:9"), bench.gce.clock)
    with pytest.raises(ProviderError) as caught:
        nowhere.launch(wanted)
    nowhere.close()
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert not caught.value.ambiguous


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failing_server_is_asked_once_and_leaves_doubt(bench: GceBench, status: int) -> None:
    wanted = asked(bench)
    bench.gce.fault("instances.insert", "error", http_status=status)  # a page of HTML
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(wanted)
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert caught.value.ambiguous
    assert bench.gce.calls()["instances.insert"] == 1


def test_a_launch_is_not_sent_again_when_it_is_throttled(bench: GceBench) -> None:
    wanted = asked(bench)
    bench.gce.fault("instances.insert", "throttle")
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(wanted)
    assert caught.value.kind is ErrorKind.THROTTLED
    assert 0 < (caught.value.retry_after or 0) <= 60
    assert bench.gce.calls()["instances.insert"] == 1


# Idempotence beyond the window in which the API knows a requestId


def test_after_the_window_an_existing_name_is_adopted(bench: GceBench) -> None:
    wanted = asked(bench)
    start(bench, wanted)
    bench.advance(2 * 3600)
    again = bench.provider.launch(wanted)
    assert [i.state for i in again.instances] == [InstanceState.RUNNING]
    assert len(bench.gce.vms()) == 1


def test_a_name_that_another_request_has_is_not_adopted(bench: GceBench) -> None:
    wanted = asked(bench)
    start(bench, wanted)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(replace(wanted, max_age_seconds=60))
    assert caught.value.kind is ErrorKind.IDEMPOTENCY
    assert not caught.value.ended
    assert len(bench.gce.vms()) == 1


def test_what_is_ending_is_told_as_over(bench: GceBench) -> None:
    wanted = asked(bench)
    refs = start(bench, wanted)
    bench.advance(2 * 3600)
    bench.provider.terminate(refs)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(wanted)
    assert caught.value.kind is ErrorKind.IDEMPOTENCY
    assert caught.value.ended


def test_the_request_id_follows_from_the_request_alone(bench: GceBench) -> None:
    wanted = asked(bench)
    assert request_id_of(wanted) == request_id_of(replace(wanted))
    assert request_id_of(wanted) != request_id_of(replace(wanted, user_data="#cloud-config\n"))
    assert bench.provider.launch(wanted).instances[0].tags[FINGERPRINT]


def test_a_stock_out_is_not_replayed_for_a_new_token(bench: GceBench) -> None:
    wanted = asked(bench)
    bench.exhaust(wanted.offer)
    refusal(bench, wanted)
    bench.restore(wanted.offer)
    # The same token gets the same answer for as long as the API remembers it.
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(wanted)
    assert caught.value.kind is ErrorKind.CAPACITY
    start(bench, asked(bench, "next"))


# Refusals through the operation


def test_a_stock_out_names_the_pool_and_how_long_to_avoid_it(bench: GceBench) -> None:
    wanted = asked(bench)
    bench.exhaust(wanted.offer)
    error, _ = refusal(bench, wanted)
    assert error.kind is ErrorKind.CAPACITY
    assert error.scope.given() == {
        "provider": "gcp",
        "account": "lab",
        "zone": wanted.offer.zone,
        "instance_type": "g2-standard-8",
        "capacity_type": "spot",
    }
    assert error.avoid_for is not None
    assert error.avoid_for.total_seconds() == 300
    assert "Available in: us-central1-b,us-central1-c." in error.message


def test_a_stock_out_of_an_attached_gpu_blocks_the_whole_type_and_not_the_bare_machine(
    bench: GceBench,
) -> None:
    wanted = asked(bench, "t4", "n1-standard-4+nvidia-tesla-t4x1")
    bench.exhaust(wanted.offer)
    error, _ = refusal(bench, wanted)
    assert error.scope.instance_type == "n1-standard-4+nvidia-tesla-t4x1"


def test_a_stock_out_of_a_gang_is_told_for_every_node(bench: GceBench) -> None:
    wanted = asked(bench, nodes=3)
    bench.exhaust(wanted.offer, leave=2)
    launched = bench.provider.launch(wanted)
    settle(bench)
    errors = [i.error for i in bench.provider.describe(refs_of(wanted, launched))]
    assert [error.kind for error in errors if isinstance(error, ProviderError)] == [ErrorKind.CAPACITY] * 3
    assert bench.live()["instance"] == 0


def test_QUO_09_a_project_wide_quota_blocks_all_regions(bench: GceBench) -> None:
    wanted = asked(bench)
    bench.gce.world.set_quota(QuotaRule(provider="gcp", region=GLOBAL, name="GPUS_ALL_REGIONS", limit=0))
    error, _ = refusal(bench, wanted)
    assert error.kind is ErrorKind.QUOTA
    assert error.scope.given() == {"provider": "gcp", "account": "lab"}


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_family_quota_blocks_the_family_in_its_region(bench: GceBench, nodes: int) -> None:
    wanted = asked(bench, "h100", "a3-highgpu-8g", ON_DEMAND, nodes)
    name = "GPUS_PER_GPU_FAMILY/NVIDIA_H100"
    bench.gce.world.set_quota(QuotaRule(provider="gcp", region=REGION, name=name, limit=4))
    error, _ = refusal(bench, wanted)
    assert error.kind is ErrorKind.QUOTA
    assert error.code == "QUOTA_EXCEEDED"
    assert error.scope.given() == {
        "provider": "gcp",
        "account": "lab",
        "region": REGION,
        "family": "NVIDIA_H100",
        "capacity_type": "on_demand",
    }


@pytest.mark.parametrize("nodes", [1, 3])
def test_an_operations_error_without_any_http_status_is_seen(bench: GceBench, nodes: int) -> None:
    wanted = asked(bench, nodes=nodes)
    method = "instances.insert" if nodes == 1 else "instances.bulkInsert"
    bench.gce.fault(method, "error", code="ZONE_RESOURCE_POOL_EXHAUSTED", http_status=200)
    error, _ = refusal(bench, wanted)
    assert error.kind is ErrorKind.CAPACITY


# Requests that are refused before anything is sent


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"image": None}, "not prepared"),
        ({"extra": {}}, "not prepared"),
        ({"nodes": 0}, "nodes: 0"),
        ({"user_data": "x" * 262_145}, "at most 262144"),
        ({"token": "NOT-A-TOKEN"}, "token"),
        ({"tags": {"corral-user": "Anna.Müller@example.com"}}, "tags corral-user=Anna"),
        ({"tags": {"1st": "x"}}, "tags 1st=x: keys begin with a letter"),
    ],
)
def test_a_request_that_cannot_be_right_is_not_sent(
    bench: GceBench, change: dict[str, object], text: str
) -> None:
    wanted = replace(asked(bench), **change)  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=text) as caught:
        bench.provider.launch(wanted)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert "instances.insert" not in bench.gce.calls()


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("projects/sandbox-project/global/images/nothing", "there is no image"),
        ("projects/sandbox-project/global/images/family/nothing", "there is no image"),
        ("a/b/c", "there is no image"),
    ],
)
def test_an_image_that_is_not_there_is_told_before_the_launch(bench: GceBench, image: str, text: str) -> None:
    provider = GcpProvider(account(bench.gce.url, image=image), bench.gce.clock)
    raw = LaunchRequest("0" * 32, key_of(bench), 1, "", {"corral-deployment": DEPLOYMENT}, 50)
    with pytest.raises(ProviderError, match=text) as caught:
        provider.prepare(raw)
    provider.close()
    assert caught.value.kind is ErrorKind.IMAGE_MISSING
    assert caught.value.scope.region == REGION


def test_without_a_setting_the_accounts_own_image_family_is_used(bench: GceBench) -> None:
    provider = GcpProvider(account(bench.gce.url, image=None), bench.gce.clock)
    raw = LaunchRequest("0" * 32, key_of(bench), 1, "", {}, 50)
    assert provider.prepare(raw).image == "projects/sandbox-project/global/images/corral-20260901"
    provider.close()


def test_the_image_of_a_region_counts_before_the_accounts(bench: GceBench) -> None:
    ubuntu = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"
    provider = GcpProvider(account(bench.gce.url, regions={REGION: {"image": ubuntu}}), bench.gce.clock)
    raw = LaunchRequest("0" * 32, key_of(bench), 1, "", {}, 50)
    assert provider.prepare(raw).image == (
        "projects/ubuntu-os-cloud/global/images/ubuntu-2204-jammy-v20260901"
    )
    provider.close()


def key_of(bench: GceBench) -> OfferKey:
    return next(o.key for o in bench.provider.offers(REGION).offers)
