"""Input that means harm or none at all gets a problem, never a fault of ours. Case ids: API-01, SEC-01."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.api.service import SPEC, Service

HUGE = "9" * 400
PAIRED = '{"name": "a", "run": "true", %s}'


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


READS = [
    "/v1/events?cursor=" + cursor("[9223372036854775808]"),
    "/v1/events?cursor=" + cursor("[-9223372036854775808000]"),
    "/v1/jobs?cursor=" + cursor('["0001-01-01T00:00:00+14:00", "x"]'),
    "/v1/jobs?cursor=" + cursor('["9999-12-31T23:59:59-14:00", "x"]'),
    "/v1/offers?cursor=" + cursor('[18446744073709551615, "x"]'),
    "/v1/projects?cursor=" + cursor('["a\\u0000"]'),
    "/v1/jobs/JOB/logs?attempt=9223372036854775808",
    "/v1/jobs/JOB/logs?attempt=2147483648&follow=true",
]


@pytest.mark.parametrize("path", READS)
def test_a_number_or_a_time_that_no_database_holds_is_refused(service: Service, path: str) -> None:
    job_id = service.submit()["id"]
    answer = service.get(path.replace("JOB", job_id))
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("count", ["9" * 30, "H100:" + "9" * 40])
def test_more_gpus_than_any_number_holds_are_no_offer(service: Service, count: str) -> None:
    service.offer()
    answer = service.get("/v1/offers", params={"gpu": count})
    assert (answer.status_code, answer.json()["items"]) == (200, [])


@pytest.mark.parametrize("place", [b"\xb2:1", b"1:\xb2", b"1:" + b"9" * 25, b"9" * 15 + b":1"])
def test_a_place_in_a_log_is_two_plain_numbers(service: Service, place: bytes) -> None:
    job_id = service.submit()["id"]
    headers: Any = {"Last-Event-ID": place, "Authorization": f"Bearer {service.admin}"}
    answer = service.client.get(f"/v1/jobs/{job_id}/logs?follow=true", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Last-Event-ID"


@pytest.mark.parametrize(
    "path", ["/v1/jobs?name=%00", "/v1/jobs/job-%00%00", "/v1/projects/%00/secrets", "/v1/events?kind=a%00b"]
)
def test_an_address_with_a_nul_is_refused_on_every_database(any_service: Service, path: str) -> None:
    assert any_service.get(path).status_code == 400


SPECS: dict[str, dict[str, Any]] = {
    "run": {"run": "echo a\0b"},
    "setup": {"setup": "\0"},
    "container": {"container": "a\0b"},
    "env.A": {"env": {"A": "x\0"}},
    "labels.a": {"labels": {"a": "\0"}},
    "image": {"image": "\0"},
}


@pytest.mark.parametrize("field", SPECS)
@pytest.mark.parametrize("route", ["/v1/jobs", "/v1/jobs:plan"])
def test_a_nul_in_a_spec_is_an_error_of_its_field(any_service: Service, route: str, field: str) -> None:
    answer = any_service.post(route, {**SPEC, **SPECS[field]})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_deep_document_is_refused_and_not_descended_into(service: Service) -> None:
    for depth in (900, 5000):
        content = PAIRED % ('"labels": ' + "[" * depth + '"\\u0000"' + "]" * depth)
        answer = service.call(
            "POST", "/v1/jobs", content=content.encode(), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422), depth


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_limit_that_is_given_twice_is_refused_in_json_as_in_yaml(service: Service, kind: str) -> None:
    content = PAIRED % '"max_price": 1, "max_price": 100'
    headers = {"Content-Type": f"application/{kind}"}
    answer = service.call("POST", "/v1/jobs", content=content.encode(), headers=headers)
    assert answer.status_code == 400
    assert "'max_price' is given twice" in answer.json()["detail"]
    assert service.get("/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(
    "field", ["nodes", "max_price", "max_duration", "deadline", "gpu", '"resources": {"disk": %s}, "priority']
)
@pytest.mark.parametrize("number", [HUGE, f'"{HUGE}"', f'"{HUGE}GB"'])
def test_a_number_without_end_is_an_error_of_its_field(service: Service, field: str, number: str) -> None:
    body = PAIRED % (field % number + '": 0' if "%s" in field else f'"{field}": {number}')
    for kind in ("json", "yaml"):
        headers = {"Content-Type": f"application/{kind}"}
        answer = service.call("POST", "/v1/jobs:plan", content=body.encode(), headers=headers)
        assert answer.status_code in (400, 422), (kind, answer.text)


def test_a_token_cannot_last_for_longer_than_there_is_time(service: Service) -> None:
    content = f'{{"name": "a", "expires_in": 1{"0" * 400}}}'
    headers = {"Content-Type": "application/json"}
    answer = service.call("POST", "/v1/tokens", content=content.encode(), headers=headers)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "expires_in")


@pytest.mark.parametrize("value", ["ab\0cd", "\ud800abcd"])
def test_a_secret_that_no_environment_can_carry_is_refused(service: Service, value: str) -> None:
    headers = {"Content-Type": "application/json"}
    content = json.dumps({"value": value}).encode()
    answer = service.call("PUT", "/v1/projects/default/secrets/S", content=content, headers=headers)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "value")
    assert service.get("/v1/projects/default/secrets").json()["items"] == []


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"path": "/../../etc", "to": "storage"},
        {"path": "/a/../..", "to": "storage"},
        {"path": "/", "to": "storage"},
        {"path": "/./", "to": "storage"},
        {"path": "/c", "to": "file://relative/folder"},
        {"path": "/c", "to": "s3://bucket/allowed/../other"},
        {"path": "/c", "to": "s3://key:secret@bucket/a"},
        {"path": "/c", "to": "az://container/a?sig=c4nary"},
    ],
)
def test_a_checkpoint_stays_where_it_belongs(service: Service, checkpoint: dict[str, str]) -> None:
    answer = service.post("/v1/jobs:plan", {**SPEC, "checkpoint": checkpoint})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith("checkpoint.")
    assert "c4nary" not in answer.text


def test_no_redirect_goes_to_where_the_host_header_says(service: Service) -> None:
    answer = service.get("/v1/jobs/", headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "evil.example" not in str(answer.headers)
