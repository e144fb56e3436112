"""Real failures over quotas, as the service must meet them: launches counted, blocks looked at."""

from __future__ import annotations

import pytest

from policies.model import Block
from providers.errors import ErrorKind, ProviderError
from providers.memory import Limit
from providers.quotas import QuotaUnit
from providers.vocabulary import Accelerator, CapacityType, InstanceType, OfferKey, Scope
from service.market.snapshot import snapshot
from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench
from tests.quota_desk.desk import NODE, SPOT, limited

ON_DEMAND = CapacityType.ON_DEMAND


def block_of(bench: Bench, key: OfferKey, nodes: int = 1) -> Block | None:
    """What keeps an offer from being tried now."""
    now = bench.clock.now()
    market = bench.database.read(lambda session: snapshot(session, now))
    (found,) = [one for one in market.offers if one.key == key]
    return market.block_of(found, now, None, nodes)


@pytest.mark.parametrize("account", ["aws", "gcp", "azure"])
def test_QUO_01_no_create_is_sent_where_the_quota_is_zero_and_the_record_says_so(
    make_bench: MakeBench, clock: FakeClock, account: str
) -> None:
    other = next(name for name in ("aws", "gcp", "azure") if name != account)
    bench = make_bench(
        **{account: limited(clock, account, 0, 1.0), other: limited(clock, other, 10 * NODE, 9.0)}
    )
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    assert bench.live_attempt(job_id).account == other
    assert bench.clouds[account].launches == []
    block = block_of(bench, offer(account, 1.0).key)
    assert block is not None
    assert (block.kind, block.code) == ("quota", "quota_zero")
    assert "H100 spot vCPUs: 0 of 0 vCPU free, 96 needed" in block.message


def test_QUO_04_a_used_up_spot_pool_costs_one_create_and_on_demand_there_is_still_tried(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    """The pool is not known beforehand: the refusal tells, and speaks of all spot of the region."""
    other = InstanceType("gpu-8b", "H100b", 96, 1024, Accelerator("H100", 8, 80))
    made = cloud(
        clock,
        offer("azure", 1.0),
        offer("azure", 2.0, type_=other),
        offer("azure", 5.0, capacity_type=ON_DEMAND),
    )
    pool = Scope("memory", "azure", "azure-1", capacity_type=SPOT)
    made.fail(
        "launch", ProviderError(ErrorKind.QUOTA, "LowPriorityCores", scope=pool), times=None, scope=pool
    )
    bench = make_bench(azure=made)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    assert bench.live_attempt(job_id).capacity_type is ON_DEMAND
    assert len([call for call in made.launches if call.error]) == 1
    bench.submit_job("second")
    bench.pass_time(60)
    assert len([call for call in made.launches if call.error]) == 1, "all spot there is blocked for everyone"


def test_QUO_09_a_limit_over_all_regions_is_found_out_once_and_the_job_goes_elsewhere(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    gcp = cloud(clock, *(offer("gcp", 1.0 + number, zone=zone) for number, zone in enumerate("abcdefghij")))
    everywhere = Scope("memory", "gcp")
    gcp.fail("launch", ProviderError(ErrorKind.QUOTA, "GPUS_ALL_REGIONS", scope=everywhere), times=None)
    bench = make_bench(gcp=gcp, aws=cloud(clock, offer("aws", 50.0)))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    assert bench.live_attempt(job_id).account == "aws"
    assert len(gcp.launches) == 1


def test_QUO_11_what_only_a_reading_excludes_is_said_to_be_untried(desk: Bench) -> None:
    desk.submit_job()
    desk.turn()
    block = block_of(desk, offer("aws", 1.0).key)
    assert block is not None
    assert "as last read; not tried" in block.message


def test_QUO_11_a_reading_that_grew_old_excludes_nothing_so_that_a_wrong_table_heals(desk: Bench) -> None:
    """Mapped to the wrong quota, and the right one cannot be read any more: the cloud itself decides."""
    desk.clouds["aws"].market.set_quota("aws-1", "H100", SPOT, None)
    desk.clouds["aws"].hide("aws-1", call="quotas", times=None)
    job_id = desk.submit_job()
    desk.run_until(job_id, JobState.RUNNING, within=2 * 3600)


@pytest.fixture
def desk(make_bench: MakeBench, clock: FakeClock) -> Bench:
    return make_bench(aws=limited(clock, "aws", 0))


def test_QUO_12_one_bucket_of_two_sizes_is_counted_together_and_spot_apart(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    """On-demand P sizes share one quota; spot of the newer ones has one of its own."""
    p4 = InstanceType("p4d", "P", 96, 1024, Accelerator("A100", 8, 40))
    p5 = InstanceType("p5", "P", 192, 2048, Accelerator("H100", 8, 80))
    offers = {
        (type_.name, kind): offer("aws", 5.0, type_=type_, capacity_type=kind)
        for type_ in (p4, p5)
        for kind in (SPOT, ON_DEMAND)
    }
    made = cloud(clock, *offers.values())
    for key, limit, scope in (
        ("L-417A185B", 192, Scope(family="P", capacity_type=ON_DEMAND)),
        ("L-7212CCBC", 96, Scope(instance_type="p4d", capacity_type=SPOT)),
        ("L-C4BD4855", 0, Scope(instance_type="p5", capacity_type=SPOT)),
    ):
        made.market.set_limit(Limit(key, key, "aws-1", QuotaUnit.VCPU, limit, (scope,)))
    bench = make_bench(aws=made)
    allowed = {name for name, one in offers.items() if block_of(bench, one.key) is None}
    assert allowed == {("p4d", SPOT), ("p4d", ON_DEMAND), ("p5", ON_DEMAND)}
    job_id = bench.submit_job(resources={"gpu": {"name": ["A100"], "count": 8}}, spot={"use": "never"})
    bench.run_until(job_id, JobState.RUNNING)
    assert block_of(bench, offers["p5", ON_DEMAND].key) is not None, "96 + 192 > 192"


def test_a_refusal_blocks_only_what_its_quota_gates(make_bench: MakeBench, clock: FakeClock) -> None:
    made = cloud(clock, offer("aws", 1.0), offer("aws", 2.0, capacity_type=ON_DEMAND))
    scope = Scope("memory", "aws", "aws-1", family="H100", capacity_type=SPOT)
    made.fail("launch", ProviderError(ErrorKind.QUOTA, "no", scope=scope), scope=scope)
    bench = make_bench(aws=made)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    assert bench.live_attempt(job_id).capacity_type is ON_DEMAND
