"""The EC2 face on the wire: scripted faults as a client meets them, and requests that no SDK would send."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tests.sandbox.ec2 import described, ids, made, refused, request, run
from tests.sandbox.worlds import Clouds, MakeClouds, until

SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=K/20260301/us-east-1/ec2/aws4_request, Signature=x"}


def fault(call: str, action: str, **more: Any) -> dict[str, Any]:
    return {"do": "fault", "at": 0, "provider": "aws", "call": call, "action": action, **more}


def started(clouds_of: MakeClouds, *faults: dict[str, Any]) -> Clouds:
    clouds = clouds_of(events=list(faults))
    clouds.pass_time(0)
    return clouds


def test_a_scripted_error_comes_as_often_as_it_was_meant_to(clouds_of: MakeClouds) -> None:
    error = {"code": "InternalError", "http_status": 500, "message": "An internal error has occurred"}
    clouds = started(clouds_of, fault("RunInstances", "error", times=2, skip=1, **error))
    ec2 = clouds.client()
    run(ec2)
    for number in (2, 3):
        answer = refused(lambda number=number: run(ec2, ClientToken=f"t{number}"))  # type: ignore[misc]
        assert answer == ("InternalError", 500, "An internal error has occurred")
    run(ec2, ClientToken="t4")
    assert made(clouds) == 2


def test_an_error_may_hide_that_the_launch_has_happened(clouds_of: MakeClouds) -> None:
    clouds = started(
        clouds_of, fault("RunInstances", "error", effect=True, code="Unavailable", http_status=503)
    )
    ec2 = clouds.client()
    assert refused(lambda: run(ec2))[:2] == ("Unavailable", 503)
    assert made(clouds) == 1
    assert len(run(ec2)) == 1
    assert made(clouds) == 1


def test_throttling_is_a_503_of_ec2_and_a_400_of_its_neighbours(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("*", "throttle", times=None))
    assert refused(lambda: described(clouds.client()))[:2] == ("RequestLimitExceeded", 503)
    pricing = clouds.client("pricing")
    throttled = refused(lambda: pricing.get_products(ServiceCode="AmazonEC2"))
    assert throttled[:2] == ("ThrottlingException", 400)
    assert refused(lambda: clouds.client("sts").get_caller_identity())[:2] == ("Throttling", 400)


def test_only_reads_can_be_throttled(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("DescribeInstances", "throttle", times=None))
    ec2 = clouds.client()
    run(ec2)
    assert refused(lambda: described(ec2))[0] == "RequestLimitExceeded"


def test_a_reply_that_is_lost_after_the_launch_is_found_again_by_its_token(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("RunInstances", "drop_reply"))
    ec2 = clouds.client()
    with pytest.raises(ConnectionClosedError):
        run(ec2)
    assert made(clouds) == 1
    found = described(ec2, Filters=[{"Name": "client-token", "Values": ["token-1"]}])
    assert ids(run(ec2)) == ids(found)
    assert made(clouds) == 1


def test_a_reply_may_be_lost_with_its_request(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("RunInstances", "drop_reply", effect=False))
    with pytest.raises(ConnectionClosedError):
        run(clouds.client())
    assert made(clouds) == 0


def test_a_call_that_hangs_runs_into_the_clients_time_out_and_has_happened(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("RunInstances", "hang"))
    parameters = request(clouds.client())
    with pytest.raises(ReadTimeoutError):
        clouds.client(read_timeout=0.3).run_instances(**parameters)
    until(lambda: made(clouds) == 1)


def test_a_fault_meets_the_calls_it_was_meant_for(clouds_of: MakeClouds) -> None:
    only = {"Placement.AvailabilityZone": "us-east-1b", "InstanceType": "g5.*"}
    clouds = started(
        clouds_of, fault("Run*", "error", times=None, code="Blocked", http_status=400, match=only)
    )
    ec2 = clouds.client()
    run(ec2)
    elsewhere = {"AvailabilityZone": "us-east-1b"}
    assert refused(lambda: run(ec2, ClientToken="t2", Placement=elsewhere))[0] == "Blocked"
    assert run(ec2, ClientToken="t3", Placement=elsewhere, InstanceType="g6.xlarge")


def test_an_answer_can_be_late_by_the_sandboxs_clock(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("DescribeInstances", "delay", seconds=40))
    ec2 = clouds.client()
    seen: list[Any] = []
    waiting = threading.Thread(target=lambda: seen.append(described(ec2)))
    waiting.start()
    time.sleep(0.05)
    assert seen == []
    deadline = time.monotonic() + 10
    while waiting.is_alive() and time.monotonic() < deadline:
        clouds.clock.advance(40)
        waiting.join(0.05)
    assert seen == [[]]


def test_every_answer_waits_for_the_latency_of_its_cloud(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(aws={"api_latency_seconds": 5})
    ec2 = clouds.client()
    seen: list[Any] = []
    waiting = threading.Thread(target=lambda: seen.append(described(ec2)))
    waiting.start()
    time.sleep(0.05)
    assert seen == []
    deadline = time.monotonic() + 10
    while waiting.is_alive() and time.monotonic() < deadline:
        clouds.clock.advance(5)
        waiting.join(0.05)
    assert seen == [[]]


def test_an_empty_page_in_the_middle_is_not_the_end(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("DescribeInstances", "empty_page", skip=1))
    ec2 = clouds.client()
    wanted = ids(run(ec2, MinCount=8, MaxCount=8))
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    sizes = [sum(len(group["Instances"]) for group in page["Reservations"]) for page in pages]
    assert sizes == [5, 0, 3]
    assert [i for page in pages for group in page["Reservations"] for i in ids(group["Instances"])] == wanted


def test_a_page_that_fails_leaves_the_list_incomplete(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("DescribeInstances", "error", skip=1, code="InternalError"))
    ec2 = clouds.client()
    run(ec2, MinCount=8, MaxCount=8)
    pages = iter(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    next(pages)
    with pytest.raises(ClientError):
        next(pages)


def test_a_state_outside_of_the_documented_ones_can_be_shown(clouds_of: MakeClouds) -> None:
    clouds = started(clouds_of, fault("DescribeInstances", "state", value="hibernating"))
    ec2 = clouds.client()
    run(ec2)
    assert described(ec2)[0]["State"]["Name"] == "hibernating"
    assert described(ec2)[0]["State"]["Name"] == "pending"


# Without an SDK


def post(clouds: Clouds, form: dict[str, str], headers: dict[str, str] | None = None) -> httpx.Response:
    body = urlencode(form)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    chosen = SIGNED if headers is None else headers
    return httpx.post(clouds.sandbox.endpoints["aws"], content=body, headers=chosen | kind, timeout=20)


def test_a_parameter_that_the_model_does_not_know_is_refused(calm: Clouds) -> None:
    form = {"Action": "DescribeInstances", "Version": "2016-11-15"}
    assert post(calm, form).status_code == 200
    for strange in ("InstanceID.1", "Filter.1.Nome", "Filters.1.Name", "Filter.x.Name"):
        answer = post(calm, {**form, strange: "x"})
        assert (answer.status_code, "<Code>UnknownParameter</Code>" in answer.text) == (400, True)
        assert f"The parameter {strange.replace('Filter.x.Name', 'Filter.x')} is not" in answer.text


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"Action": "MakeCoffee"}, "InvalidAction"),
        ({"Action": "TerminateInstances"}, "MissingParameter"),
        ({"Action": "DescribeInstances", "MaxResults": "many"}, "InvalidParameterValue"),
        ({"Action": "DescribeInstances", "DryRun": "perhaps"}, "InvalidParameterValue"),
        ({"Action": "RunInstances", "MinCount": "1"}, "MissingParameter"),
        ({"Action": "RunInstances", "MinCount": "1", "MaxCount": "1"}, "MissingParameter"),
    ],
)
def test_a_request_against_the_model_is_refused(calm: Clouds, form: dict[str, str], code: str) -> None:
    answer = post(calm, form)
    assert answer.status_code == 400
    assert f"<Code>{code}</Code>" in answer.text


def test_an_unsigned_request_is_refused(calm: Clouds) -> None:
    answer = post(calm, {"Action": "DescribeInstances"}, headers={})
    assert answer.status_code == 403
    assert "<Code>MissingAuthenticationToken</Code>" in answer.text


def test_user_data_that_is_not_base64_is_refused(calm: Clouds) -> None:
    ec2 = calm.client()
    image = ec2.describe_images(Owners=["self"])["Images"][0]["ImageId"]
    form = {"Action": "RunInstances", "MinCount": "1", "MaxCount": "1", "ImageId": image, "UserData": "%%%"}
    answer = post(calm, {**form, "InstanceType": "g5.xlarge"})
    assert "<Code>InvalidUserData.Malformed</Code>" in answer.text
    assert made(calm) == 0
