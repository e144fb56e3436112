"""Where an account's credentials come from, and what is never mixed up."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.session import Clients
from providers.errors import ErrorKind, ProviderError
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, REGION, account
from tests.providers.aws.stub import Answer, StubServer, error, ok

EMPTY = ok("DescribeInstances", "<reservationSet/>")
STS = "https://sts.amazonaws.com/doc/2011-06-15/"


def provider_with(
    stub: StubServer, variables: dict[str, str] | None = None, /, **credentials: str
) -> AwsProvider:
    config = account(stub.url, credentials=credentials)
    return AwsProvider(config, FakeClock(waits_advance=True), environment=variables or {})


def signed_by(stub: StubServer, action: str = "DescribeInstances") -> list[str]:
    """The key ids that signed the requests."""
    return [r["_authorization"].split("Credential=")[1].split("/")[0] for r in stub.sent(action)]


def test_a_prefix_names_the_variables_that_are_read(stub: StubServer) -> None:
    stub.script("DescribeInstances", EMPTY)
    provider = provider_with(stub, ENVIRONMENT, environment="LAB_")
    provider.list_instances(REGION, "d")
    assert signed_by(stub) == ["AKIDEXAMPLE"]
    provider.close()


def test_variables_that_are_not_set_are_named(stub: StubServer) -> None:
    provider = provider_with(stub, {}, environment="LAB_")
    with pytest.raises(ProviderError, match="LAB_AWS_ACCESS_KEY_ID and LAB_AWS_SECRET_ACCESS_KEY") as caught:
        provider.list_instances(REGION, "d")
    assert caught.value.kind is ErrorKind.AUTH
    assert caught.value.scope.given() == {"provider": "aws", "account": "lab"}


def test_a_file_counts_more_than_the_sdks_own_variables(
    stub: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSOMEONEELSE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    path = tmp_path / "credentials"
    path.write_text("[default]\naws_access_key_id = AKIDFILE\naws_secret_access_key = y\n")
    stub.script("DescribeInstances", EMPTY)
    provider = provider_with(stub, file=str(path))
    provider.list_instances(REGION, "d")
    assert signed_by(stub) == ["AKIDFILE"]
    provider.close()


def test_a_profile_of_the_file_may_be_chosen(stub: StubServer, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("[research]\naws_access_key_id = AKIDRESEARCH\naws_secret_access_key = y\n")
    stub.script("DescribeInstances", EMPTY)
    provider = provider_with(stub, file=str(path), profile="research")
    provider.list_instances(REGION, "d")
    assert signed_by(stub) == ["AKIDRESEARCH"]
    provider.close()


def test_a_profile_that_does_not_exist_is_an_auth_failure(stub: StubServer, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("")
    provider = provider_with(stub, file=str(tmp_path / "credentials"), profile="nobody")
    with pytest.raises(ProviderError, match="nobody") as caught:
        provider.list_instances(REGION, "d")
    assert caught.value.kind is ErrorKind.AUTH


def assumed(key: str) -> Answer:
    inner = (
        f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t"
        "</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials><AssumedRoleUser>"
        "<Arn>arn:aws:sts::1:assumed-role/r/corral-lab</Arn><AssumedRoleId>x</AssumedRoleId></AssumedRoleUser>"
    )
    return Answer(
        200,
        f'<AssumeRoleResponse xmlns="{STS}"><AssumeRoleResult>{inner}</AssumeRoleResult>'
        "</AssumeRoleResponse>",
    )


def test_a_role_is_assumed_once_with_the_accounts_own_endpoint(stub: StubServer) -> None:
    stub.script("AssumeRole", assumed("ASIAROLE"))
    stub.script("DescribeInstances", EMPTY)
    role = "arn:aws:iam::1:role/corral"
    provider = provider_with(stub, ENVIRONMENT, environment="LAB_", role=role, external_id="ours")
    provider.list_instances(REGION, "d")
    provider.list_instances(REGION, "d")
    assert signed_by(stub) == ["ASIAROLE", "ASIAROLE"]
    assert signed_by(stub, "AssumeRole") == ["AKIDEXAMPLE"]
    sent = stub.sent("AssumeRole")[0]
    assert (sent["RoleArn"], sent["ExternalId"], sent["RoleSessionName"]) == (role, "ours", "corral-lab")
    provider.close()


def test_credentials_that_ran_out_are_read_anew_and_the_call_goes_on(stub: StubServer) -> None:
    stub.script("AssumeRole", assumed("ASIAOLD"), assumed("ASIANEW"))
    stub.script("DescribeInstances", error("ExpiredToken", "The security token is expired"), EMPTY)
    provider = provider_with(stub, ENVIRONMENT, environment="LAB_", role="arn:aws:iam::1:role/corral")
    assert provider.list_instances(REGION, "d").complete
    assert signed_by(stub) == ["ASIAOLD", "ASIANEW"]
    provider.close()


def test_credentials_that_stay_expired_are_an_auth_failure_after_one_more_try(stub: StubServer) -> None:
    stub.script("DescribeInstances", error("ExpiredToken", "The security token is expired"))
    provider = provider_with(stub, ENVIRONMENT, environment="LAB_")
    with pytest.raises(ProviderError) as caught:
        provider.list_instances(REGION, "d")
    assert caught.value.kind is ErrorKind.AUTH
    assert len(stub.sent("DescribeInstances")) == 2
    provider.close()


def test_a_loopback_endpoint_is_not_asked_through_a_proxy_of_the_environment(
    stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    stub.script("DescribeInstances", EMPTY)
    provider = provider_with(stub, ENVIRONMENT, environment="LAB_")
    assert provider.list_instances(REGION, "d").complete
    provider.close()


def test_the_settings_proxy_is_used(stub: StubServer) -> None:
    stub.script("DescribeInstances", EMPTY)
    config = account("http://127.0.0.1:9", proxy=stub.url)
    provider = AwsProvider(config, FakeClock(waits_advance=True), environment=ENVIRONMENT)
    assert provider.list_instances(REGION, "d").complete
    provider.close()


def test_threads_that_ask_at_once_share_one_client() -> None:
    clients = Clients(account("http://127.0.0.1:9"), ENVIRONMENT)
    start = threading.Barrier(8)

    def get(_: int) -> int:
        start.wait()
        return id(clients.get("ec2", REGION))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(get, range(8)))) == 1
    clients.close()


def test_the_adapter_imports_no_sdk_before_its_first_call() -> None:
    code = (
        "import sys, clock; from providers.aws.adapter import AwsProvider;"
        "from providers.config import AccountConfig;"
        "AwsProvider(AccountConfig(name='a', provider='aws', regions={'us-east-1': {}}), clock.REAL);"
        "print([m for m in sys.modules if m.startswith('boto')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
