"""Which limit gates which offers, as a region lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from providers.aws.quota_table import LIMITS, limit_of
from providers.aws.quotas import counted, drawn, matched
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import CapacityType, Offer
from tests.providers.aws.conftest import REGION
from tests.providers.aws.quota_lists import (
    NAMES,
    ON_DEMAND,
    OTHERS,
    SPLIT,
    SPOT,
    entry,
    listed,
    offer,
    reading,
)


def gating(quotas: Iterable[Quota], wanted: Offer) -> list[str]:
    return [quota.key for quota in quotas if quota.covers(wanted)]


def fits(quotas: Iterable[Quota], wanted: Offer) -> bool:
    rooms = [
        quota.limit - quota.usage
        for quota in quotas
        if quota.covers(wanted) and quota.limit is not None and quota.usage is not None
    ]
    assert rooms
    return all(wanted.type.vcpus <= room for room in rooms)


def test_QUO_11_no_two_limits_share_a_code_or_take_each_others_name() -> None:
    assert max(Counter(limit.code for limit in LIMITS).values()) == 1
    for names in (NAMES, NAMES | SPLIT):
        rows = matched(listed({}, {**OTHERS, **names}))
        assert {limit.code: row["QuotaCode"] for limit, row in rows.items()} == {code: code for code in names}


def test_QUO_06_families_are_told_apart_by_whole_letters() -> None:
    quotas = reading(listed({"L-1216C47A": 640}, NAMES | OTHERS))
    expected = {
        "t3.large": "L-1216C47A",
        "d3.xlarge": "L-1216C47A",
        "trn1.2xlarge": "L-2C3B7624",
        "p5.48xlarge": "L-417A185B",
        "g5.xlarge": "L-DB2E81BA",
        "gr6.4xlarge": "L-DB2E81BA",
        "vt1.3xlarge": "L-DB2E81BA",
        "inf2.xlarge": "L-1945791B",
        "dl1.24xlarge": "L-6E869C2A",
        "f2.6xlarge": "L-74FC7D96",
    }
    assert {name: gating(quotas, offer(name, 4, ON_DEMAND)) for name in expected} == {
        name: [code] for name, code in expected.items()
    }
    assert next(quota.limit for quota in quotas if quota.key == "L-1216C47A") == 640


def test_QUO_06_a_family_without_a_known_limit_is_gated_by_none() -> None:
    quotas = reading(listed({}, NAMES | OTHERS))
    assert gating(quotas, offer("x2idn.16xlarge", 64, ON_DEMAND)) == []
    assert gating(quotas, offer("hpc7a.96xlarge", 192, ON_DEMAND)) == []


@pytest.mark.parametrize("running", [0, 1])
def test_QUO_12_on_demand_p_shares_one_limit_and_spot_p5_has_its_own(running: int) -> None:
    values = {"L-417A185B": 192, "L-7212CCBC": 96, "L-C4BD4855": 0, "L-DB2E81BA": 0, "L-3819A6DF": 64}
    p5, p4d, g5 = ("p5.48xlarge", 192), ("p4d.24xlarge", 96), ("g5.12xlarge", 48)
    quotas = reading(
        listed(values, NAMES | SPLIT),
        ("g5.12xlarge", "p4d.24xlarge", "p5.48xlarge"),
        {("p4d.24xlarge", ON_DEMAND): running},
        {"p4d.24xlarge": 96},
    )
    allowed = {
        (name, capacity_type): fits(quotas, offer(name, vcpus, capacity_type))
        for name, vcpus in (p5, p4d, g5)
        for capacity_type in (ON_DEMAND, SPOT)
    }
    assert allowed == {
        ("p5.48xlarge", ON_DEMAND): not running,
        ("p5.48xlarge", SPOT): False,
        ("p4d.24xlarge", ON_DEMAND): True,
        ("p4d.24xlarge", SPOT): True,
        ("g5.12xlarge", ON_DEMAND): False,
        ("g5.12xlarge", SPOT): True,
    }


def test_where_a_region_has_one_spot_limit_for_p_it_gates_every_generation() -> None:
    quotas = reading(listed({}))
    for name in ("p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"):
        assert gating(quotas, offer(name, 96, SPOT)) == ["L-7212CCBC"]


def test_where_a_region_counts_p5_apart_newer_generations_count_with_it() -> None:
    types = ("p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge")
    quotas = reading(listed({}, NAMES | SPLIT), types)
    found = {name: gating(quotas, offer(name, 96, SPOT)) for name in types}
    assert found == {
        "p4d.24xlarge": ["L-7212CCBC"],
        "p5.48xlarge": ["L-C4BD4855"],
        "p6-b200.48xlarge": ["L-C4BD4855"],
    }
    both = frozenset(matched(listed({}, NAMES | SPLIT)))
    used = {
        limit.code: vcpus
        for limit, vcpus in drawn({("p5.48xlarge", SPOT): 2}, {"p5.48xlarge": 192}, both).items()
    }
    assert (used["L-C4BD4855"], used["L-7212CCBC"]) == (384, 0)


def test_a_limit_is_found_by_name_under_a_new_code_and_by_code_under_a_new_name() -> None:
    renamed = [
        entry("L-0000NEW0", 8, "Running On-Demand G and VT instances"),
        entry("L-417A185B", 9, "Running On-Demand P and PX instances"),
    ]
    quotas = reading(renamed)
    assert gating(quotas, offer("g6.xlarge", 4, ON_DEMAND)) == ["L-0000NEW0"]
    assert gating(quotas, offer("p5.48xlarge", 192, ON_DEMAND)) == ["L-417A185B"]
    assert [(quota.name, quota.limit) for quota in quotas] == [
        (row["QuotaName"], row["Value"]) for row in renamed[::-1]
    ]


def test_a_limit_gates_neither_the_other_capacity_type_nor_another_region() -> None:
    quotas = reading(listed({}))
    assert len(quotas) == len(NAMES)
    assert {(quota.region, quota.unit, quota.adjustable) for quota in quotas} == {
        (REGION, QuotaUnit.VCPU, True)
    }
    assert limit_of("g6.xlarge", CapacityType.RESERVED, frozenset(LIMITS)) is None
    gates = {gate for quota in quotas for gate in quota.gates}
    assert len(gates) == len(NAMES)
    assert all((gate.provider, gate.account, gate.region) == ("aws", "lab", REGION) for gate in gates)


def test_capacity_blocks_and_dedicated_hosts_have_limits_of_their_own() -> None:
    def one(**more: Any) -> dict[str, Any]:
        return {"InstanceType": "p5.48xlarge", **more}

    counts = counted(
        [
            one(),
            one(InstanceLifecycle="spot"),
            one(InstanceLifecycle="capacity-block"),
            one(Placement={"Tenancy": "host"}),
            one(Placement={"Tenancy": "default"}),
        ]
    )
    assert (counts["p5.48xlarge", ON_DEMAND], counts["p5.48xlarge", SPOT]) == (2, 1)
    quotas = reading(listed({}), counts=counts, sizes={"p5.48xlarge": 192})
    assert {quota.key: quota.usage for quota in quotas if quota.usage} == {
        "L-417A185B": 384,
        "L-7212CCBC": 192,
    }


def test_an_instance_of_unknown_size_leaves_only_its_own_limit_unknown() -> None:
    quotas = reading(
        listed({}), counts={("g9.xlarge", SPOT): 1, ("m7i.large", SPOT): 2}, sizes={"m7i.large": 2}
    )
    usage = {quota.key: quota.usage for quota in quotas}
    assert usage["L-3819A6DF"] is None
    assert (usage["L-DB2E81BA"], usage["L-34B43A08"]) == (0, 4)
