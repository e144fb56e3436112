"""What nobody means well by, in requests for more quota: refused with a word, on either database. And what
was spent, which either database tells.
"""

from __future__ import annotations

import json

import pytest

from providers.memory import MemoryCloud, MemoryProvider
from tests.api.service import Service

WISH = {"provider": "aws", "region": "us-east-1", "gpu": "H100:8"}


@pytest.fixture
def hostile(any_service: Service) -> Service:
    """With an account of aws."""
    clock = any_service.clock
    account = MemoryProvider("main", ["us-east-1"], clock, MemoryCloud(clock))
    any_service.ctx.providers = {("aws", "main"): account}
    any_service.offer()
    return any_service


def test_what_was_spent_can_be_asked_on_either_database(any_service: Service) -> None:
    any_service.attempt(any_service.submit()["id"])
    answer = any_service.get("/v1/costs")
    assert answer.status_code == 200, answer.text


def test_a_request_with_a_text_that_no_database_takes_is_refused(hostile: Service) -> None:
    for field in ("provider", "account", "region", "instance_type", "why", "project"):
        for text in ("a\x00b", "\ud800"):
            body = json.dumps({**WISH, field: text}).encode()
            answer = hostile.call("POST", "/v1/quota-requests", content=body)
            assert answer.status_code in (400, 422), (field, answer.text)


@pytest.mark.parametrize("gpu", ["H100:2147483648", "H100:99999999999999999999", "H100:0"])
def test_a_number_of_gpus_that_nobody_sells_is_refused(hostile: Service, gpu: str) -> None:
    answer = hostile.post("/v1/quota-requests", {**WISH, "gpu": gpu})
    assert answer.status_code == 422
    assert "100000" in answer.text or "GPU" in answer.text
