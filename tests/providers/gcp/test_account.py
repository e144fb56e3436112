"""An account's credentials, endpoint, proxy and CA, what `check` says of it, and how the SDK is loaded."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import credentials
from providers.gcp.adapter import GcpProvider
from providers.gcp.connections import Pool
from providers.vocabulary import CheckResult
from tests.certificates import self_signed
from tests.providers.gcp.bench import REGION, GceBench, account

USER = {
    "type": "authorized_user",
    "client_id": "id",
    "client_secret": "s",
    "refresh_token": "r",
}


def cloud(**settings: Any) -> AccountConfig:
    """An account of the real cloud; nothing in these tests calls it."""
    fields: dict[str, Any] = {
        "name": "lab",
        "provider": "gcp",
        "project": "research",
        "regions": {REGION: {}},
    }
    return AccountConfig.model_validate(fields | settings)


def load(settings: AccountConfig, environment: dict[str, str] | None = None) -> Any:
    return credentials.load(settings, None, environment or {})


# Credentials


def test_a_local_cloud_needs_no_credentials() -> None:
    from google.auth.credentials import AnonymousCredentials

    assert isinstance(load(cloud(endpoint="http://127.0.0.1:1")), AnonymousCredentials)


def test_credentials_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "user.json"
    path.write_text(json.dumps(USER))
    found = load(cloud(credentials={"file": str(path)}))
    assert found.client_id == "id"
    assert found.scopes == [credentials.SCOPE]


def test_credentials_come_from_the_environment_under_the_prefix_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "user.json"
    path.write_text(json.dumps(USER))
    settings = cloud(credentials={"environment": "RESEARCH_"})
    found = load(settings, {"RESEARCH_GOOGLE_APPLICATION_CREDENTIALS": str(path)})
    assert found.client_id == "id"
    with pytest.raises(ProviderError, match="RESEARCH_GOOGLE_APPLICATION_CREDENTIALS is not set") as caught:
        load(settings)
    assert caught.value.kind is ErrorKind.AUTH


def test_a_service_account_signs_its_own_tokens(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    path.write_text(json.dumps(service_account()))
    found = load(cloud(credentials={"file": str(path)}))
    headers: dict[str, str] = {}
    # No request can be made: signing needs none.
    found.before_request(None, "GET", "https://compute.googleapis.com/", headers)
    assert headers["authorization"].startswith("Bearer ey")


def test_a_role_is_impersonated(tmp_path: Path) -> None:
    path = tmp_path / "user.json"
    path.write_text(json.dumps(USER))
    role = "runner@research.iam.gserviceaccount.com"
    found = load(cloud(credentials={"file": str(path), "role": role}))
    assert found.service_account_email == role


def test_a_workload_of_another_cloud_is_federated(tmp_path: Path) -> None:
    path = tmp_path / "federated.json"
    path.write_text(json.dumps(federated({"file": str(tmp_path / "token")})))
    assert type(load(cloud(credentials={"file": str(path)}))).__module__ == "google.auth.identity_pool"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "No such file"),
        ("{", "JSON"),
        ("{}", "type"),
        (json.dumps({"type": "magic"}), "allowed: service_account, authorized_user, external_account"),
        (json.dumps({"type": "service_account"}), "client_email"),
        (
            json.dumps(
                {"type": "external_account", "credential_source": {"executable": {"command": "/bin/true"}}}
            ),
            "executable is not supported",
        ),
    ],
)
def test_a_file_that_is_no_use_is_told_with_its_name(tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "broken.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProviderError, match=text) as caught:
        load(cloud(credentials={"file": str(path)}))
    assert caught.value.kind is ErrorKind.AUTH
    assert "broken.json" in str(caught.value)


@pytest.mark.parametrize("field", ["profile", "external_id"])
def test_a_setting_that_means_nothing_here_is_refused(field: str) -> None:
    with pytest.raises(ProviderError, match="are for AWS"):
        load(cloud(credentials={field: "x"}))


def federated(source: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": source,
    }


def service_account() -> dict[str, Any]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "research",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "robot@research.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }


# Proxy, CA and endpoint


class Recorder(BaseHTTPRequestHandler):
    """Notes what it is asked for, as a proxy sees it, and answers every GET with an empty list."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None: ...


class QuietServer(HTTPServer):
    """Keeps what clients do to it to itself."""

    def handle_error(self, request: object, client_address: object) -> None: ...


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (Recorder,), {"asked": asked})
    server = QuietServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_the_proxy_of_the_settings_is_used_for_the_sdk_and_for_prices(
    bench: GceBench, proxy: tuple[str, list[str]]
) -> None:
    url, asked = proxy
    provider = GcpProvider(account("http://localhost:1", proxy=url), bench.gce.clock)
    provider.offers(REGION)
    provider.close()
    places = {path.partition("?")[0] for path in asked}
    assert "http://localhost:1/compute/v1/projects/sandbox-project/aggregated/machineTypes" in places
    assert "http://localhost:1/v1/services/6F81-5844-456A/skus" in places


def test_a_local_cloud_is_reached_past_the_machines_own_proxy(
    bench: GceBench, proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = proxy
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert bench.provider.offers(REGION).offers
    assert asked == []


@pytest.fixture
def private_cloud(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An endpoint with TLS, and the certificate that vouches for it."""
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (Recorder,), {"asked": []})
    server = QuietServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}", certificate
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_private_ca_is_trusted_where_the_settings_name_it(
    bench: GceBench, private_cloud: tuple[str, Path]
) -> None:
    url, certificate = private_cloud
    trusting = GcpProvider(account(url, ca_bundle=str(certificate)), bench.gce.clock)
    results = {result.subject: result.ok for result in trusting.check()}
    trusting.close()
    assert results["project sandbox-project"]
    assert results["price catalogue"]


def test_the_settings_win_over_the_environment(
    private_cloud: tuple[str, Path],
    proxy: tuple[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session by itself would follow the environment, whatever it is told."""
    url, certificate = private_cloud
    other, _ = self_signed(tmp_path / "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with requests.Session() as session:
        session.mount("https://", Pool(cloud(ca_bundle=str(certificate))))
        assert session.get(url).status_code == 200
        session.mount("http://", Pool(cloud(proxy=proxy[0])))
        assert session.get("http://cloud.invalid/").status_code == 200
    assert proxy[1] == ["http://cloud.invalid/"]


def test_where_the_settings_are_silent_the_environment_holds(
    private_cloud: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(private_cloud[1]))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with requests.Session() as session:
        session.mount("https://", Pool(cloud()))
        assert session.get(private_cloud[0]).status_code == 200


def test_a_private_ca_that_is_not_named_is_not_trusted(
    bench: GceBench, private_cloud: tuple[str, Path]
) -> None:
    wary = GcpProvider(account(private_cloud[0]), bench.gce.clock)
    results = wary.check()
    wary.close()
    assert [result.ok for result in results] == [False]
    assert "CERTIFICATE_VERIFY_FAILED" in results[0].detail
    assert "CA settings" in results[0].remedy


def test_a_closed_provider_can_be_used_again(bench: GceBench) -> None:
    bench.provider.offers(REGION)
    bench.provider.close()
    assert bench.provider.list_instances(REGION, "x").complete


# Check


def checked(bench: GceBench, **settings: Any) -> dict[str, CheckResult]:
    provider = GcpProvider(account(bench.gce.url, **settings), bench.gce.clock)
    results = provider.check()
    provider.close()
    return {result.subject: result for result in results}


def test_check_looks_at_everything_that_a_launch_needs(bench: GceBench) -> None:
    results = checked(bench, regions={REGION: {"subnets": ["training"]}, "us-east4": {}})
    assert set(results) == {
        "project sandbox-project",
        f"region {REGION}",
        f"image in {REGION}",
        f"subnetwork training in {REGION}",
        f"way out of {REGION}",
        f"instances in {REGION}",
        f"quotas in {REGION}",
        "region us-east4",
        "image in us-east4",
        "subnetwork default in us-east4",
        "way out of us-east4",
        "instances in us-east4",
        "quotas in us-east4",
        "permissions",
        "further permissions",
        "instances that shut themselves down",
        "price catalogue",
    }
    assert all(result.ok for result in results.values())
    assert results[f"region {REGION}"].detail == "zones us-central1-a, us-central1-b, us-central1-c"


@pytest.mark.parametrize(
    ("settings", "subject", "text"),
    [
        ({"regions": {"mars-north1": {}}}, "region mars-north1", "was not found"),
        (
            {"regions": {REGION: {"zones": ["us-central1-z"]}}},
            f"region {REGION}",
            "no such zones: us-central1-z",
        ),
        ({"regions": {REGION: {"subnets": ["nosuch"]}}}, f"subnetwork nosuch in {REGION}", "was not found"),
        ({"image": "nosuch"}, f"image in {REGION}", "there is no image nosuch"),
    ],
)
def test_check_names_what_is_wrong_and_how_to_mend_it(
    bench: GceBench, settings: dict[str, Any], subject: str, text: str
) -> None:
    result = checked(bench, **settings)[subject]
    assert not result.ok
    assert text in result.detail
    assert result.remedy


IAM = "cloudresourcemanager.projects.testIamPermissions"


def test_check_names_the_permissions_that_launches_lack(bench: GceBench) -> None:
    denied = "compute.instances.create,compute.subnetworks.useExternalIp"
    bench.gce.fault(IAM, "state", value=denied, times=None)
    line = checked(bench)["permissions"]
    assert not line.ok
    assert line.detail.endswith("compute.instances.create, compute.subnetworks.useExternalIp")
    behind_nat = checked(bench, regions={REGION: {"public_address": False}})["permissions"]
    assert behind_nat.detail.endswith("missing in the project: compute.instances.create")


def test_check_says_what_is_not_to_be_had_without_further_permissions(bench: GceBench) -> None:
    bench.gce.fault(IAM, "state", value="cloudquotas.quotas.update", times=None)
    results = checked(bench)
    assert results["permissions"].ok
    line = results["further permissions"]
    assert line.ok
    assert "asking for more quota (cloudquotas.quotas.update)" in line.detail


def test_permissions_that_cannot_be_tested_are_no_fault(bench: GceBench) -> None:
    bench.gce.fault(IAM, "error", code="SERVICE_DISABLED", http_status=403, times=None)
    assert checked(bench)["permissions"].ok
    assert "not tested" in checked(bench)["permissions"].detail


def test_check_finds_a_subnetwork_without_free_addresses(bench: GceBench) -> None:
    assert "2044 addresses free" in checked(bench)[f"subnetwork default in {REGION}"].detail
    bench.gce.fault("subnetworks.get", "state", value="0", times=None)
    line = checked(bench)[f"subnetwork default in {REGION}"]
    assert (line.ok, "no free address" in line.detail, "subnets" in line.remedy) == (False, True, True)


def test_check_finds_that_instances_without_addresses_have_no_way_out(bench: GceBench) -> None:
    inside = {"public_address": False, "subnets": ["training"]}
    assert checked(bench, regions={REGION: inside})[f"way out of {REGION}"].detail == "by Cloud NAT"
    bench.gce.fault("routers.list", "state", value="default", times=None)
    line = checked(bench, regions={REGION: inside})[f"way out of {REGION}"]
    assert not line.ok
    assert f"no Cloud NAT in {REGION} serves training (training)" in line.detail
    assert "Cloud NAT for its network" in line.remedy


def test_check_looks_at_the_networks_of_a_fast_interconnect(bench: GceBench) -> None:
    names = [f"gpu-{number}" for number in range(8)]
    sound = checked(bench, regions={REGION: {"fabric_subnets": {"a3-megagpu-8g": names}}})
    assert sound[f"fast interconnect in {REGION}"].ok
    assert sound[f"subnetwork gpu-7 in {REGION}"].ok
    wrong = checked(bench, regions={REGION: {"fabric_subnets": {"a3-megagpu-8g": ["gpu-0", "none"]}}})
    assert "2 subnetworks are given" in wrong[f"fast interconnect in {REGION}"].detail
    assert not wrong[f"subnetwork none in {REGION}"].ok


def test_check_stops_where_the_project_cannot_be_read(bench: GceBench) -> None:
    bench.gce.fault("projects.get", "error", code="forbidden", http_status=403)
    results = checked(bench)
    assert list(results) == ["project sandbox-project"]
    assert not results["project sandbox-project"].ok
    assert "credentials" in results["project sandbox-project"].remedy


def test_check_never_raises(bench: GceBench) -> None:
    nowhere = GcpProvider(account("http://127.0.0.1:9"), bench.gce.clock)
    assert [result.ok for result in nowhere.check()] == [False]
    nowhere.close()
    broken = GcpProvider(cloud(credentials={"file": "/nonexistent"}), bench.gce.clock)
    assert [result.ok for result in broken.check()] == [False]
    broken.close()


def test_check_tells_of_prices_that_cannot_be_read(bench: GceBench) -> None:
    bench.gce.fault("cloudbilling.*", "error", code="forbidden", http_status=403, times=10)
    result = checked(bench)["price catalogue"]
    assert not result.ok


# Loading


SLIM = """
import sys
from clock import REAL
from providers.config import AccountConfig
from providers.gcp.adapter import GcpProvider
regions = {"us-central1": {}}
config = AccountConfig(name="a", provider="gcp", project="p", regions=regions, endpoint="http://127.0.0.1:9")
provider = GcpProvider(config, REAL)
assert not [name for name in sys.modules if name.startswith("google.")], "imported too early"
provider.check()
services = [name for name in sys.modules if name.startswith("google.cloud.compute_v1.services.")]
assert len({name.split(".")[4] for name in services}) < 10, services
from google.cloud import compute_v1
assert compute_v1.RoutersClient.__name__ == "RoutersClient"
assert compute_v1.Instance(name="x").name == "x"
assert not hasattr(compute_v1, "NothingClient") and not hasattr(compute_v1, "Nothing")
provider.close()
"""


def test_the_sdk_is_loaded_late_and_only_as_far_as_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLIM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
