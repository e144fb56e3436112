"""The spellings of SkyPilot and dstack mean what they mean there; what has no effect here is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from service.api.problems import InvalidFieldsError
from service.jobs.aliases import canonical
from service.jobs.spec import JobSpec
from service.jobs.unsupported import UNSUPPORTED

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEAST: dict[str, Any] = {"name": "a", "run": "x"}


def spec_of(data: Any) -> JobSpec:
    """The canonical spec of what a user sent at NOW."""
    return canonical(data, NOW).finish()


def read(**fields: Any) -> dict[str, Any]:
    """The canonical spec of the least job with these fields, without what is at its default."""
    spec = spec_of({**LEAST, **fields}).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {name: value for name, value in spec.items() if name not in LEAST}


def fields_of(**fields: Any) -> dict[str, str]:
    """The errors of a spec, by field."""
    with pytest.raises(InvalidFieldsError) as caught:
        spec_of({**LEAST, **fields})
    return {error.field: error.problem for error in caught.value.errors}


def gpu(name: list[str], count: int) -> dict[str, Any]:
    wish: dict[str, Any] = {"name": name}
    if count != 1:
        wish["count"] = count
    return {"resources": {"gpu": wish}}


SAME_GPU: list[tuple[Any, list[str], int]] = [
    ("H100:8", ["H100"], 8),
    ("h100:8", ["H100"], 8),
    ("NVIDIA H100:8", ["H100"], 8),
    ("H100-80GB:8", ["H100"], 8),
    ("A100-80GB:8", ["A100-80GB"], 8),
    ("A100:80GB:8", ["A100-80GB"], 8),
    ("A100:8", ["A100"], 8),
    ("A100:40GB..:2", ["A100", "A100-80GB"], 2),
    ("L4", ["L4"], 1),
    ({"A100-80GB": 8}, ["A100-80GB"], 8),
    ({"L4": None}, ["L4"], 1),
    (["A100:4", "H100:4"], ["A100", "H100"], 4),
    (
        {"vendor": "nvidia", "name": ["A100", "H100"], "count": 8, "memory": "80GB.."},
        ["A100-80GB", "H100"],
        8,
    ),
    ({"name": "H100", "count": "8+"}, ["H100"], 8),
]


@pytest.mark.parametrize(("given", "names", "count"), SAME_GPU, ids=[str(case[0]) for case in SAME_GPU])
@pytest.mark.parametrize("where", ["resources.gpu", "resources.accelerators", "accelerators"])
def test_gpus_in_every_familiar_spelling(given: Any, names: list[str], count: int, where: str) -> None:
    section, _, field = where.partition(".")
    fields = {section: {field: given}} if field else {section: given}
    assert read(**fields) == gpu(names, count)


def test_gpus_by_memory_alone() -> None:
    low = read(gpu="80GB+")["resources"]["gpu"]
    assert low == {"min_memory_gb": 80}
    both = canonical({**LEAST, "gpu": "24GB..80GB:1..8"}, NOW)
    spec = both.finish()
    assert spec.resources.gpu is not None
    assert (spec.resources.gpu.min_memory_gb, spec.resources.gpu.max_memory_gb) == (24, 80)
    assert spec.resources.gpu.count == 1
    assert "not enforced" in both.warnings[0]


def test_a_size_that_a_gpu_is_not_made_in_is_refused() -> None:
    assert fields_of(gpu="A100:90GB")["gpu"] == "A100 has 40 or 80 GB"


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"num_nodes": 2}, {"resources": {"nodes": 2}}),
    ({"nodes": 2}, {"resources": {"nodes": 2}}),
    ({"resources": {"nodes": 2}}, {"resources": {"nodes": 2}}),
    ({"use_spot": True}, {"spot": {"use": "only"}}),
    ({"use_spot": False}, {"spot": {"use": "never"}}),
    ({"resources": {"use_spot": True}}, {"spot": {"use": "only"}}),
    ({"spot_policy": "spot"}, {"spot": {"use": "only"}}),
    ({"spot_policy": "on-demand"}, {"spot": {"use": "never"}}),
    ({"spot_policy": "auto"}, {}),
    ({"spot": {"use": "only", "wait": "15m"}}, {"spot": {"use": "only", "wait_seconds": 900}}),
    ({"resources": {"infra": "aws/us-east-1"}}, {"allow": ["aws/us-east-1"]}),
    ({"resources": {"infra": "aws/us-east-1/use1-az4"}}, {"allow": ["aws/us-east-1/use1-az4"]}),
    ({"resources": {"infra": "aws/*"}}, {"allow": ["aws"]}),
    ({"resources": {"infra": "*/us-central1"}}, {"allow": ["gcp/us-central1"]}),
    ({"resources": {"infra": "*"}}, {}),
    ({"backends": ["aws", "gcp"]}, {"allow": ["aws", "gcp"]}),
    ({"backends": ["aws", "gcp"], "regions": ["us-east-1"]}, {"allow": ["aws/us-east-1"]}),
    ({"regions": ["East US"]}, {"allow": ["azure/eastus"]}),
    ({"clouds": {"allow": ["aws"], "deny": ["gcp"]}}, {"allow": ["aws"], "deny": ["gcp"]}),
    ({"regions": {"deny": ["us-east-1"]}}, {"deny": ["aws/us-east-1"]}),
    ({"clouds": {"deny": ["gcp"]}, "regions": {"deny": ["us-east-1"]}}, {"deny": ["gcp", "aws/us-east-1"]}),
    ({"envs": {"A": 1, "B": True}}, {"env": {"A": "1", "B": "true"}}),
    ({"env": ["A=1", "B=x=y"]}, {"env": {"A": "1", "B": "x=y"}}),
    ({"secrets": {"HF_TOKEN": None}}, {"secrets": ["HF_TOKEN"]}),
    ({"max_hourly_cost": 20}, {"max_price": 20}),
    ({"resources": {"max_hourly_cost": "20"}}, {"max_price": 20}),
    ({"max_duration": "72h"}, {"max_duration_seconds": 259200}),
    ({"max_duration": "1d12h30m"}, {"max_duration_seconds": 131400}),
    ({"max_duration": 3600}, {"max_duration_seconds": 3600}),
    ({"max_duration": "off"}, {}),
    ({"resources": {"cpus": "8+", "memory": "32+"}}, {"resources": {"cpus": 8, "memory_gib": 32}}),
    ({"resources": {"cpu": "16..", "memory": "200GB.."}}, {"resources": {"cpus": 16, "memory_gib": 200}}),
    ({"resources": {"cpus": 8, "memory": "1TB"}}, {"resources": {"cpus": 8, "memory_gib": 1024}}),
    ({"resources": {"disk": "500GB.."}}, {"resources": {"disk_gib": 500}}),
    ({"resources": {"disk": {"size": "500GB"}}}, {"resources": {"disk_gib": 500}}),
    ({"resources": {"disk_size": 500}}, {"resources": {"disk_gib": 500}}),
    ({"retry": {"on_events": ["no-capacity", "interruption", "error"]}}, {"retry": {"failed": 100}}),
    ({"retry": {"on_events": ["no-capacity"]}}, {"retry": {"preempted": 0, "lost": 0}}),
    ({"retry": False}, {"retry": {"preempted": 0, "lost": 0, "boot_failed": 0}}),
    (
        {"job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": 3}},
        {"retry": {"failed": 3}},
    ),
    ({"resources": {"job_recovery": {"recover_on_exit_codes": [29]}}}, {"retry": {"exit_codes": [29]}}),
    ({"image_id": "docker:pytorch/pytorch:2.3"}, {"container": "pytorch/pytorch:2.3"}),
    ({"workdir": {"url": "https://x/y", "ref": "v1"}}, {"git": {"url": "https://x/y", "ref": "v1"}}),
    ({"git": "https://x/y"}, {"git": {"url": "https://x/y"}}),
    ({"tags": {"team": "vision"}}, {"labels": {"team": "vision"}}),
    ({"class": "preprocess"}, {"class": "preprocessing"}),
    ({"type": "task"}, {}),
    (
        {"checkpoint": {"path": "/c", "to": "s3://b/x", "grace": "1m"}},
        {"checkpoint": {"path": "/c", "to": "s3://b/x", "grace_seconds": 60}},
    ),
    (
        {"file_mounts": {"data/a.txt": {"sha256": "0" * 64}}},
        {"files": [{"path": "data/a.txt", "sha256": "0" * 64}]},
    ),
    ({"setup": None, "container": None}, {}),
]


@pytest.mark.parametrize(("given", "meant"), SAME, ids=[str(case[0])[:60] for case in SAME])
def test_familiar_spellings_mean_the_same_here(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert read(**given) == meant


def test_dstacks_list_of_commands_is_one_script() -> None:
    spec = spec_of({"name": "a", "commands": ["pip install x", "python t.py"]})
    assert spec.run == "pip install x\npython t.py"


def test_a_whole_skypilot_task() -> None:
    task = yaml.safe_load(
        """
        name: train
        num_nodes: 2
        resources:
          infra: gcp/us-central1
          accelerators: {A100-80GB: 8}
          cpus: 8+
          memory: 32+
          use_spot: true
          disk_size: 500
        envs: {LR: "1e-4"}
        setup: pip install -r requirements.txt
        run: torchrun train.py
        """
    )
    spec = spec_of(task)
    assert spec.resources.gpu is not None
    assert (spec.resources.gpu.name, spec.resources.gpu.count, spec.resources.nodes) == (("A100-80GB",), 8, 2)
    assert (spec.allow, spec.spot.use, spec.env) == (("gcp/us-central1",), "only", {"LR": "1e-4"})


def test_what_is_written_canonically_is_read_as_it_is() -> None:
    spec = spec_of({**LEAST, "gpu": "A100:80GB:8", "max_duration": "2h", "spot": {"wait": "5m"}})
    document = spec.model_dump(mode="json", by_alias=True)
    assert JobSpec.model_validate(document) == spec
    assert spec_of(document) == spec


TWICE = [
    {"num_nodes": 2, "nodes": 2},
    {"nodes": 2, "resources": {"nodes": 2}},
    {"gpu": "L4", "resources": {"accelerators": "L4"}},
    {"use_spot": True, "spot": "only"},
    {"env": {"A": "1"}, "envs": {"B": "2"}},
    {"run": "a", "commands": ["b"]},
    {"max_price": 1, "max_hourly_cost": 1},
    {"max_duration": "1h", "max_duration_seconds": 3600},
    {"retry": {"failed": 1}, "job_recovery": {"max_restarts_on_errors": 1}},
]


@pytest.mark.parametrize("fields", TWICE, ids=str)
def test_the_same_thing_said_twice_is_refused_even_if_both_agree(fields: dict[str, Any]) -> None:
    assert any("says the same as" in problem for problem in fields_of(**fields).values())


def nested(path: str) -> dict[str, Any]:
    section, _, field = path.partition(".")
    if not field:
        return {section: {"any": "thing"}}
    return {section: {field: {"any": "thing"}}}


@pytest.mark.parametrize("path", sorted(UNSUPPORTED))
def test_what_has_no_effect_yet_is_refused_and_never_ignored(path: str) -> None:
    assert "not supported yet" in fields_of(**nested(path))[path]


REFUSED = [
    ({"type": "service"}, "type"),
    ({"retry": {"duration": "4h"}}, "retry.duration"),
    ({"job_recovery": "FAILOVER"}, "job_recovery.strategy"),
    ({"nodes": {"min": 1, "max": 2}}, "nodes"),
    ({"file_mounts": {"/ckpt": {"source": "s3://b", "mode": "MOUNT"}}}, "file_mounts./ckpt"),
    ({"image": {"us-east-1": "ami-1"}}, "image"),
    ({"gpu": {"name": "H100", "total_memory": "640GB"}}, "gpu"),
    ({"gpu": {"vendor": "amd", "name": "MI300X"}}, "gpu"),
]


@pytest.mark.parametrize(("fields", "field"), REFUSED, ids=[str(case[0])[:50] for case in REFUSED])
def test_values_whose_effect_is_not_built_are_refused_too(fields: dict[str, Any], field: str) -> None:
    assert "not supported yet" in fields_of(**fields)[field]


@pytest.mark.parametrize("image", ["pytorch/pytorch:latest", "ubuntu:22.04", "nvcr.io/nvidia/pytorch:24.05"])
def test_a_container_image_is_not_taken_for_a_machines(image: str) -> None:
    assert "`container`" in fields_of(image=image)["image"]


@pytest.mark.parametrize(
    "image",
    ["ami-0abc", "ssm:/aws/x", "self/corral-*", "family/corral", "a:b:c:1.0", "projects/p/global/images/x"],
)
def test_the_clouds_names_of_images_are_taken(image: str) -> None:
    assert read(image=image)["image"] == image


def test_errors_of_nested_fields_carry_the_users_own_path() -> None:
    errors = fields_of(resources={"accelerators": "L4:99", "disk_size": 5}, envs={"A-B": "1"})
    assert set(errors) == {"resources.accelerators", "resources.disk_size", "envs.A-B"}


def test_an_ec2_zone_is_named_by_its_id() -> None:
    assert "use1-az4" in fields_of(resources={"infra": "aws/us-east-1/us-east-1a"})["resources.infra"]


@pytest.mark.parametrize(
    "text", ["", ":", "H100:", "H100:x", "H100:1:2:3", "..", "GB", "H100:1.5", "a" * 500]
)
def test_a_gpu_text_that_makes_no_sense_is_an_error_of_its_field(text: str) -> None:
    assert set(fields_of(gpu=text)) == {"gpu"}
