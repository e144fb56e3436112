"""Settings: one file, the environment over it, and what is wrong said with its place.
Case ids: CFG-03, CFG-04, SEC-06.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from providers.config import AccountConfig
from providers.regions import canonical_region
from service.configuration import Configuration, ConfigurationError, check, digest, load
from service.http_server import Server
from service.initialise import initialise
from service.jobs.spec import Checkpoint
from service.settings import Settings
from service.storage import job_store, store_options

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the settings are asked to refuse
FILE = """\
data_dir: /var/lib/corral
listen:
  port: 9000
accounts:
  - name: research
    provider: aws
    regions:
      us-east-1: {}
    endpoint: http://127.0.0.1:5000
limits:
  max_nodes: 8
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "corral.yaml"
    path.write_text(FILE)
    return path


def problems_of(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return check(path)


def test_without_a_file_the_defaults_are_enough_to_serve() -> None:
    settings = load(None, {})
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 8080)
    assert settings.accounts == ()


def test_CFG_03_the_environment_beats_the_file_and_the_file_the_default(file: Path) -> None:
    assert load(file, {}).listen.port == 9000
    assert load(file, {"CORRAL_LISTEN__PORT": "9001"}).listen.port == 9001
    both = load(file, {"CORRAL_LISTEN__HOST": "::1", "CORRAL_LIMITS__MAX_BLOB": "2000000"})
    assert (both.listen.host, both.listen.port) == ("::1", 9000)  # what is not set keeps the file's value
    assert (both.limits.max_nodes, both.limits.max_blob, both.limits.max_instances) == (8, 2_000_000, 1000)


def test_variables_hold_texts_numbers_lists_and_mappings(file: Path) -> None:
    settings = load(
        file,
        {
            "CORRAL_CLOCK": "12.5:60",
            "CORRAL_LOG_LEVEL": "debug",
            "CORRAL_ROUTES": '[{"class": "core", "policy": "cheapest"}]',
            "CORRAL_TRUSTED_PROXIES": "[10.0.0.1]",
            "CORRAL_STORAGE_OPTIONS__REGION": "on",
            "PATH": "/bin",
        },
    )
    assert settings.clock == "12.5:60"
    assert settings.routes[0].run_class == "core"
    assert settings.trusted_proxies == ("10.0.0.1",)
    assert settings.storage_options == {"region": "on"}


def test_an_unknown_key_is_named_with_its_line_and_what_is_allowed(file: Path) -> None:
    (problem,) = problems_of(file, FILE.replace("  port: 9000", "  prot: 9000"))
    assert problem.startswith(f"{file}:3: unknown key listen.prot; did you mean port? (allowed: host, ")
    (problem,) = problems_of(file, FILE + "limit: {}\n")
    assert problem.startswith(f"{file}:12: unknown key limit; did you mean limits?")
    (problem,) = problems_of(file, FILE.replace("us-east-1: {}", "us-east-1: {subnet: [a]}"))
    assert problem.startswith(
        f"{file}:8: unknown key accounts.0.regions.us-east-1.subnet; did you mean subnets?"
    )


def test_an_unknown_variable_is_named_too_and_every_problem_at_once(file: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(file, {"CORRAL_LISTN__PORT": "1", "CORRAL_LISTEN__PRT": "1", "CORRAL_LIMITS__MAX_NODES": "many"})
    first, second, third = caught.value.problems
    assert first.startswith("CORRAL_LISTEN__PRT: unknown key listen.prt; did you mean port?")
    assert first.endswith("(allowed: host, metrics_port, port, tls_cert, tls_key)")
    assert second.startswith("CORRAL_LISTN__PORT: unknown key listn.port; did you mean listen?")
    assert third.startswith("CORRAL_LIMITS__MAX_NODES: limits.max_nodes: ")


def test_variables_of_the_command_line_and_the_agent_are_no_settings(file: Path) -> None:
    names = ("CONFIG", "SECRET_KEY", "URL", "TOKEN", "PROJECT", "ROOT", "METADATA_URL", "DEBUG")
    load(file, {f"CORRAL_{name}": "x" for name in names})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen: {port: 70000}", ":1: listen.port: "),
        ("listen: [1]", ":1: listen: "),
        ("a: 1\na: 2", ":2: the key 'a' is given twice"),
        ("a: &x 1", ":1: anchors and aliases are not accepted"),
        ("a: [", ":2: "),
        ("- a", "expected a mapping of settings"),
        ("deployment_id: A", ":1: deployment_id: "),
        ("listen: {tls_cert: x}", ":1: listen: tls_cert and tls_key are given together or not at all"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(file: Path, text: str, said: str) -> None:
    assert said in problems_of(file, text)[0]


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    assert check(tmp_path / "none.yaml") == [
        f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    ]
    assert check(None) == []


def account(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "provider": "aws", "regions": {"us-east-1": {}}, **changes}


def test_a_real_cloud_needs_an_address_that_its_agents_can_call_over_tls() -> None:
    def refused(**fields: Any) -> str:
        with pytest.raises(ConfigurationError) as caught:
            load(None, {}, {"accounts": [account()], **fields})
        return str(caught.value)

    assert "public_url is required" in refused()
    assert "https is required" in refused(public_url="http://corral.example")
    assert "trusted_proxies" in refused(public_url="https://corral.example")
    load(
        None,
        {},
        {"accounts": [account()], "public_url": "https://c.example", "trusted_proxies": ["10.0.0.1"]},
    )
    listen = {"tls_cert": "c.pem", "tls_key": "k.pem"}
    load(None, {}, {"accounts": [account()], "public_url": "https://c.example", "listen": listen})
    local = account(endpoint="http://127.0.0.1:1")
    load(None, {}, {"accounts": [local]})


def test_SEC_06_outside_of_this_machine_tokens_travel_encrypted_only() -> None:
    for host in (EVERYWHERE, "192.168.1.4", "::"):
        with pytest.raises(ConfigurationError, match="tokens would cross the network in clear"):
            load(None, {"CORRAL_LISTEN__HOST": host})
    load(None, {"CORRAL_LISTEN__HOST": EVERYWHERE, "CORRAL_TRUSTED_PROXIES": "[10.0.0.1]"})
    for host in ("127.0.0.1", "localhost", "::1"):
        load(None, {"CORRAL_LISTEN__HOST": host})


def test_only_a_local_cloud_may_be_sped_up() -> None:
    fields = {"public_url": "https://c.example", "trusted_proxies": ["10.0.0.1"], "clock": "0:60"}
    with pytest.raises(ConfigurationError, match="only the factor 1"):
        load(None, {}, {"accounts": [account()], **fields})


REGIONS = [
    ("aws", "us-east-1", "us-east-1"),
    ("gcp", "us-east1 ", "us-east1"),
    ("azure", "East US", "eastus"),
    ("azure", "East US 2", "eastus2"),
    ("aws", "us-gov-west-1", "us-gov-west-1"),
    ("azure", "germanywestcentral", "germanywestcentral"),
]


@pytest.mark.parametrize(("provider", "written", "name"), REGIONS)
def test_CFG_04_regions_are_brought_to_the_clouds_spelling(provider: str, written: str, name: str) -> None:
    assert canonical_region(provider, written) == name


ZONES = [
    ("aws", "us-east-1a", "us-east-1"),
    ("aws", "af-south-1-los-1a", "af-south-1"),
    ("gcp", "us-central1-a", "us-central1"),
    ("azure", "eastus-1", "eastus"),
]


@pytest.mark.parametrize(("provider", "zone", "region"), ZONES)
def test_CFG_04_a_zone_is_no_region_and_the_right_one_is_said(provider: str, zone: str, region: str) -> None:
    with pytest.raises(ValueError, match=f"is a zone; write the region '{region}'"):
        canonical_region(provider, zone)


def test_CFG_04_regions_may_be_a_list_and_one_given_twice_counts_once() -> None:
    made = AccountConfig.model_validate(account(regions=["eu-central-1", " EU-central-1 ", "us-east-1"]))
    assert list(made.regions) == ["eu-central-1", "us-east-1"]
    with pytest.raises(ValueError, match="eu-central-1 is given twice"):
        AccountConfig.model_validate(account(regions={"eu-central-1": {}, "EU-CENTRAL-1": {}}))


def test_the_hash_says_whether_two_processes_have_the_same_settings(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("limits: {max_nodes: 8}\nlisten: {port: 9000}\n# a comment\n")
    same = load(file, {"CORRAL_ACCOUNTS": "[]", "CORRAL_DATA_DIR": "./.corral"})
    assert digest(same) == digest(load(other, {}))
    assert digest(same) != digest(load(file, {}))
    assert len(digest(same)) == 12


class Applied:
    """What was taken over."""

    def __init__(self, error: Exception | None = None) -> None:
        self.settings: list[Settings] = []
        self._error = error

    def __call__(self, settings: Settings) -> None:
        if self._error:
            raise self._error
        self.settings.append(settings)


def test_a_reload_takes_over_accounts_routes_limits_times_and_log_level(file: Path) -> None:
    configuration, applied = Configuration(file, {}), Applied()
    before = configuration.hash
    assert configuration.reload(applied) == []
    file.write_text(
        FILE.replace("max_nodes: 8", "max_nodes: 9").replace("us-east-1", "us-west-2")
        + "log_level: debug\nroutes: [{policy: cheapest}]\ntimes: {heartbeat: 30}\n"
    )
    changed = configuration.reload(applied)
    assert sorted(changed) == ["accounts", "limits", "log_level", "routes", "times"]
    assert applied.settings == [configuration.settings]
    assert configuration.settings.limits.max_nodes == 9
    assert configuration.hash != before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("port: 9000", "port: 9001", "listen: changed, which needs a restart; nothing was reloaded"),
        ("/var/lib/corral", "/elsewhere", "data_dir: changed, which needs a restart; nothing was reloaded"),
        ("max_nodes: 8", "max_nodes: 0", "limits.max_nodes: "),
        ("research", "Research Team", "accounts.0.name: "),
        ("limits:", "limts:", "unknown key limts"),
    ],
)
def test_a_reload_is_whole_or_not_at_all(file: Path, old: str, new: str, said: str) -> None:
    configuration, applied = Configuration(file, {}), Applied()
    before = (configuration.hash, configuration.settings)
    file.write_text(FILE.replace(old, new).replace("max_nodes: 8", "max_nodes: 9"))
    with pytest.raises(ConfigurationError) as caught:
        configuration.reload(applied)
    assert any(said in problem for problem in caught.value.problems)
    assert (configuration.hash, configuration.settings) == before
    assert applied.settings == []


def test_settings_that_cannot_be_applied_leave_the_old_ones_in_force(file: Path) -> None:
    configuration = Configuration(file, {})
    before = configuration.hash
    file.write_text(FILE.replace("max_nodes: 8", "max_nodes: 9"))
    with pytest.raises(RuntimeError):
        configuration.reload(Applied(RuntimeError("no such adapter")))
    assert (configuration.hash, configuration.settings.limits.max_nodes) == (before, 8)


def test_what_the_command_line_overrides_stays_so_after_a_reload(file: Path) -> None:
    configuration = Configuration(file, {}, {"accounts": [account(endpoint="http://127.0.0.1:1")]})
    file.write_text(FILE.replace("max_nodes: 8", "max_nodes: 9"))
    assert configuration.reload(Applied()) == ["limits"]
    assert [one.name for one in configuration.settings.accounts] == ["a"]


def test_a_store_gets_the_options_of_the_longest_prefix_and_secrets_by_reference(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    settings = Settings(
        storage_url="s3://ours/corral",
        storage_options={"secret_access_key": "never handed out"},
        checkpoint_url="s3://checkpoints/corral",
        stores={
            "s3://checkpoints": {"region": "eu-west-1", "secret_access_key": "env:STORE_KEY"},
            "s3://team": {"region": "us-east-1"},
            "s3://team/vision": {"secret_access_key": f"file:{tmp_path / 'key'}"},
        },
    )
    environment = {"STORE_KEY": "from-the-environment"}

    def store(to: str) -> dict[str, Any]:
        return job_store(settings, Checkpoint(path="/c", to=to), environment)

    assert store("storage") == {
        "url": "s3://checkpoints/corral",
        "options": {"region": "eu-west-1", "secret_access_key": "from-the-environment"},
    }
    assert store("s3://team/nlp")["options"] == {"region": "us-east-1"}
    assert store("s3://team/vision/x")["options"] == {"secret_access_key": "from-a-file"}
    assert store("s3://teammates/x") == {"url": "s3://teammates/x", "options": {}}
    assert store_options(settings, "s3://teammates/x") is None
    assert store("s3://ours/corral/logs")["options"] == {}


@pytest.mark.parametrize("url", ["s3://ours", "s3://ours/corral", "s3://ours/corral/checkpoints/"])
@pytest.mark.parametrize("setting", ["stores", "checkpoint_url"])
def test_SEC_what_instances_are_handed_is_never_good_for_the_services_own_store(
    setting: str, url: str
) -> None:
    given: dict[str, Any] = {"stores": {url: {}}} if setting == "stores" else {"checkpoint_url": url}
    with pytest.raises(ValueError, match=f"{setting}: {url} overlaps storage_url"):
        Settings(storage_url="s3://ours/corral", **given)


def test_reading_settings_logs_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        load(file, {"CORRAL_STORAGE_OPTIONS__SECRET": "canary"})
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("clock: e:e", "clock"),
        ("clock: 0:0", "clock"),
        ("clock: 1e999:1", "clock"),
        ("database_url: mysql://db/corral", "database_url"),
        ("storage_url: ftp://host/folder", "storage_url"),
        ('data_dir: "a\\0b"', "data_dir"),
        ('public_url: "http://[::1"', "public_url"),
        ('listen: {host: "127.0.0.1]["}', "listen.host"),
    ],
)
def test_what_no_service_could_start_with_is_found_by_the_check(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "corral.yaml"
    path.write_text(text)
    (problem,) = check(path)
    assert f"{key}: " in problem


@pytest.mark.parametrize("text", ["- a", "0", "false", '""', "[]"])
def test_a_file_that_is_no_mapping_is_refused_whatever_the_environment_says(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "corral.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="expected a mapping"):
        load(path, {"CORRAL_LOG_LEVEL": "debug"})


def test_the_database_is_ours_alone_also_in_a_folder_that_others_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    initialise(Settings(data_dir=str(tmp_path)), environment={})
    for file in tmp_path.glob("corral.db*"):
        assert file.stat().st_mode & 0o077 == 0, file
    assert (tmp_path / "corral.db").stat().st_size > 0


def test_a_certificate_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    settings = Settings.model_validate({"listen": {"tls_cert": "/nowhere/a", "tls_key": "/nowhere/b"}})
    with socket.socket() as listening, pytest.raises(OSError, match=r"listen\.tls_cert"):
        Server(_no_app, settings, listening)


async def _no_app(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("nobody is served")
