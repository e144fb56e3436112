"""Jobs that are there: lists, single ones, cancelling, events, attempts and what they cost.
Case ids: API-03, API-05.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from providers.vocabulary import CapacityType
from service.attempts.cost import Span, cost_micros
from service.attempts.model import Attempt
from service.projects.model import Role
from service.states import AttemptState, JobState
from tests.api.service import CPU, H100, L4, Service

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_pages_show_every_job_once_newest_first(any_service: Service) -> None:
    ids = []
    for number in range(7):
        ids.append(any_service.submit(name=f"job{number}")["id"])
        any_service.clock.advance(1 if number % 2 else 0)
    seen, cursor, pages = [], "", 0
    while True:
        answer = any_service.get(f"/v1/jobs?limit=3{cursor}").json()
        seen += [job["id"] for job in answer["items"]]
        pages += 1
        if answer["next_cursor"] is None:
            break
        cursor = f"&cursor={answer['next_cursor']}"
    assert pages == 3
    assert sorted(seen) == sorted(ids)
    times = [any_service.job(job_id).submitted_at for job_id in seen]
    assert times == sorted(times, reverse=True)


def test_a_job_that_comes_while_one_pages_moves_nothing(service: Service) -> None:
    for number in range(4):
        service.submit(name=f"job{number}")
        service.clock.advance(1)
    first = service.get("/v1/jobs?limit=2").json()
    service.submit(name="late")
    second = service.get(f"/v1/jobs?limit=2&cursor={first['next_cursor']}").json()
    assert [job["name"] for job in first["items"] + second["items"]] == ["job3", "job2", "job1", "job0"]


@pytest.mark.parametrize("cursor", ["x", "W10", "bnVsbA", "WyJ4IiwieSJd", "WzEsMl0", "%00", "a" * 400])
def test_a_cursor_that_is_none_of_ours_is_422(service: Service, cursor: str) -> None:
    answer = service.get("/v1/jobs", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "cursor"


def test_lists_are_filtered_by_state_class_name_and_project(any_service: Service) -> None:
    queued = any_service.submit(name="waits", **{"class": "core"})["id"]
    running = any_service.submit(name="runs", project=any_service.project("vision").name)["id"]
    any_service.attempt(running)

    def ids(query: str) -> list[str]:
        return [job["id"] for job in any_service.get(f"/v1/jobs?{query}").json()["items"]]

    assert ids("state=running") == [running]
    assert sorted(ids("state=running,queued")) == sorted([queued, running])
    assert sorted(ids("state=running&state=queued")) == sorted([queued, running])
    assert ids("class=core") == [queued]
    assert ids("name=runs") == [running]
    assert ids("project=vision") == [running]
    answer = any_service.get("/v1/jobs?state=asleep")
    assert (answer.status_code, "queued" in answer.json()["errors"][0]["allowed"]) == (422, True)


def test_a_job_shows_where_it_runs_and_what_it_costs_so_far(service: Service) -> None:
    job_id = service.submit()["id"]
    service.attempt(job_id, price_micros=36_000_000)
    service.clock.advance(1800)
    shown = service.get(f"/v1/jobs/{job_id}").json()
    assert (shown["state"], shown["cost_usd"]) == ("running", 18.0)
    assert shown["offer"]["zone"] == "use1-az1"
    assert shown["offer"]["price_usd_hour"] == 36.0
    (listed,) = service.get("/v1/jobs").json()["items"]
    assert (listed["cost_usd"], listed["offer"]) == (18.0, shown["offer"])


def test_values_of_env_that_are_named_like_secrets_are_not_shown(service: Service) -> None:
    env = {
        "HF_TOKEN": "hf_canary_1",
        "AWS_SECRET_ACCESS_KEY": "canary_2",
        "DB_PASSWORD": "canary_3",
        "LR": "1e-4",
    }
    answer = service.post("/v1/jobs", {"name": "a", "run": "x", "env": env})
    shown = service.get(f"/v1/jobs/{answer.json()['id']}")
    for text in (answer.text, shown.text, service.get("/v1/jobs").text):
        assert "canary" not in text
    assert shown.json()["spec"]["env"] == dict.fromkeys(env, "***") | {"LR": "1e-4"}


def test_API_05_the_beginning_of_an_id_will_do_if_it_is_unambiguous(any_service: Service) -> None:
    first = any_service.submit()["id"]
    any_service.clock.advance(3600)
    second = any_service.submit()["id"]
    common = next(first[:end] for end in range(len(first), 0, -1) if second.startswith(first[:end]))
    assert any_service.get(f"/v1/jobs/{first[: len(common) + 1]}").json()["id"] == first
    answer = any_service.get(f"/v1/jobs/{common}")
    assert (answer.status_code, sorted(answer.json()["candidates"])) == (409, sorted([first, second]))
    assert any_service.post(f"/v1/jobs/{common}:cancel").status_code == 409
    assert {any_service.job(one).state for one in (first, second)} == {JobState.QUEUED}


def test_API_05_nothing_or_too_little_names_no_job(service: Service) -> None:
    job_id = service.submit()["id"]
    for path in ("/v1/jobs/:cancel", "/v1/jobs/job:cancel", "/v1/jobs/j:cancel", "/v1/jobs/%25:cancel"):
        assert service.post(path).status_code in (404, 405), path
    assert service.job(job_id).state is JobState.QUEUED


def test_API_05_cancelling_someone_elses_job_cancels_exactly_that_one(service: Service) -> None:
    theirs = service.submit(service.token(Role.MEMBER, "theirs"))["id"]
    others = [service.submit()["id"] for _ in range(3)]
    assert service.post(f"/v1/jobs/{theirs}:cancel").json()["state"] == "cancelled"
    assert {service.job(one).state for one in others} == {JobState.QUEUED}


def test_API_03_a_waiting_job_is_cancelled_at_once_and_its_claim_is_void(any_service: Service) -> None:
    job_id = any_service.submit()["id"]

    def claim(session) -> None:  # type: ignore[no-untyped-def]
        job = session.get_one(type(any_service.job(job_id)), job_id)
        job.claim_token, job.claim_until = "scheduler", any_service.now + timedelta(seconds=60)
        session.add(job)

    any_service.database.write(claim)
    answer = any_service.post(f"/v1/jobs/{job_id}:cancel")
    assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (
        200,
        "cancelled",
        "cancelled",
    )
    row = any_service.job(job_id)
    assert (row.claim_token, row.wake_at, row.ended_at) == (None, None, any_service.now)


def test_API_03_a_running_job_is_stopping_and_its_attempt_is_due_now(any_service: Service) -> None:
    job_id = any_service.submit()["id"]
    attempt_id = any_service.attempt(job_id)
    any_service.woken.clear()
    any_service.clock.advance(60)
    assert any_service.post(f"/v1/jobs/{job_id}:cancel").json()["state"] == "stopping"
    row = any_service.job(job_id)
    assert row.cancel_requested_at == any_service.now
    attempt = any_service.database.read(lambda session: session.get_one(Attempt, attempt_id))
    assert attempt.wake_at == any_service.now
    assert "lifecycle" in any_service.woken
    assert any_service.post(f"/v1/jobs/{job_id}:cancel").json()["state"] == "stopping"
    kinds = [event["kind"] for event in any_service.get(f"/v1/jobs/{job_id}/events").json()["items"]]
    assert kinds.count("job_stopping") == 1


def test_a_job_that_has_ended_cannot_be_cancelled(service: Service) -> None:
    job_id = service.submit()["id"]
    service.attempt(job_id, state=AttemptState.RUNNING)
    service.finish(job_id)
    answer = service.post(f"/v1/jobs/{job_id}:cancel")
    assert (answer.status_code, answer.json()["state"]) == (409, "succeeded")
    cancelled = service.submit()["id"]
    for _ in range(2):
        assert service.post(f"/v1/jobs/{cancelled}:cancel").status_code == 200


def test_attempts_are_listed_in_order_with_their_cost(service: Service) -> None:
    job_id = service.submit()["id"]
    service.attempt(job_id, state=AttemptState.ENDED, number=1, price_micros=10_000_000, hours=0.5)
    service.clock.advance(3600)
    service.attempt(job_id, number=2, price_micros=20_000_000)
    service.clock.advance(360)
    first, second = service.get(f"/v1/jobs/{job_id}/attempts").json()["items"]
    assert (first["number"], first["state"], first["cost_usd"]) == (1, "ended", 5.0)
    assert (second["number"], second["state"], second["cost_usd"]) == (2, "running", 2.0)
    assert (second["billed_to"], second["provider"], second["price_usd_hour"]) == (None, "aws", 20.0)
    assert service.get(f"/v1/jobs/{job_id}").json()["cost_usd"] == 7.0


SPANS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 90_000_000)), max_size=20)


@given(SPANS)
def test_cost_is_exact_to_the_last_digit_and_rounded_once(parts: list[tuple[int, int]]) -> None:
    spans = [Span(START, START + timedelta(microseconds=length), price) for length, price in parts]
    exact = sum(length * price for length, price in parts)
    found = cost_micros(spans, START)
    assert abs(found * 3_600_000_000 - exact) * 2 <= 3_600_000_000


def test_cost_of_what_still_runs_is_up_to_now_and_never_below_zero() -> None:
    on = Span(START, None, 3_600_000)
    assert cost_micros([on], START + timedelta(seconds=1)) == 1000
    assert cost_micros([on], START - timedelta(hours=1)) == 0


def test_events_are_paged_oldest_first_and_say_what_happened(any_service: Service) -> None:
    job_id = any_service.submit()["id"]
    any_service.attempt(job_id)
    any_service.finish(job_id)
    first = any_service.get(f"/v1/jobs/{job_id}/events?limit=2").json()
    rest = any_service.get(f"/v1/jobs/{job_id}/events?limit=2&cursor={first['next_cursor']}").json()
    kinds = [event["kind"] for event in first["items"] + rest["items"]]
    assert kinds == ["job_submitted", "job_starting", "job_running", "job_succeeded"]
    newest = any_service.get("/v1/events?limit=1").json()["items"][0]
    assert (newest["kind"], newest["project"]) == ("job_succeeded", "default")
    assert any_service.get("/v1/events?kind=job_running").json()["items"][0]["job_id"] == job_id


def test_a_plan_ranks_offers_gives_each_refusal_a_reason_and_keeps_nothing(any_service: Service) -> None:
    any_service.offer(H100, price=60.0)
    any_service.offer(H100, zone="use1-az2", price=25.0, capacity_type=CapacityType.SPOT)
    any_service.offer(H100, provider="gcp", region="us-central1", zone="us-central1-a", price=None)
    any_service.offer(L4, provider="gcp", region="us-central1", zone="us-central1-b", price=1.0)
    any_service.offer(CPU, provider="azure", region="eastus", zone="eastus-1", price=0.4)
    body = {"name": "a", "run": "x", "gpu": "H100:8", "num_nodes": 2, "max_price": 55}
    plan = any_service.post("/v1/jobs:plan", body).json()
    assert [(offer["rank"], offer["capacity_type"]) for offer in plan["offers"]] == [(1, "spot")]
    assert (plan["offers"][0]["price_usd_hour"], plan["offers"][0]["job_usd_hour"]) == (25.0, 50.0)
    assert plan["total_offers"] == 1
    assert plan["counts"] == {"wrong_gpu": 2, "price_unknown": 1, "price_too_high": 1}
    assert len(plan["passed_over"]) == 4
    assert all(offer["reason"] and offer["detail"] for offer in plan["passed_over"])
    assert any_service.get("/v1/jobs").json()["items"] == []
    assert any_service.get("/v1/events").json()["items"] == []


def test_a_plan_warns_where_nothing_for_sale_is_large_enough(service: Service) -> None:
    def warned(gpu: str) -> str:
        return " ".join(
            service.post("/v1/jobs:plan", {"name": "a", "run": "x", "gpu": gpu}).json()["warnings"]
        )

    assert "no offer is known yet" in warned("H100:8")
    service.offer(H100, price=60.0)
    assert "the largest of that kind has 8 GPUs: ask for more nodes" in warned("H100:16")
    assert "no account sells an instance like this" in warned("L4")
    assert "no account sells" not in warned("H100:8")


def test_a_plan_of_a_wrong_spec_is_refused_like_the_spec(service: Service) -> None:
    answer = service.post("/v1/jobs:plan", {"name": "a", "run": "x", "gpu": "H1000"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "gpu")


def test_explain_says_of_every_offer_why_the_job_is_not_there(service: Service) -> None:
    service.offer(H100, price=60.0)
    service.offer(L4, provider="gcp", region="us-central1", zone="us-central1-b", price=1.0)
    job_id = service.submit(spot={"wait": "10m"})["id"]
    told = service.get(f"/v1/jobs/{job_id}:explain").json()
    assert (told["id"], told["state"], told["total_offers"]) == (job_id, "queued", 2)
    by_type = {candidate["instance_type"]: candidate for candidate in told["candidates"]}
    assert by_type["p5.48xlarge"]["reason"] == "waiting_for_spot"
    assert by_type["p5.48xlarge"]["until"] == "2026-03-01T12:10:00Z"
    assert by_type["g2-standard-8"]["reason"] == "wrong_gpu"


def test_offers_are_listed_cheapest_first_by_gpu_and_place(any_service: Service) -> None:
    any_service.offer(H100, price=60.0)
    any_service.offer(H100, zone="use1-az2", price=25.0, capacity_type=CapacityType.SPOT)
    any_service.offer(H100, provider="gcp", region="us-central1", zone="us-central1-a", price=None)
    any_service.offer(L4, provider="gcp", region="us-central1", zone="us-central1-b", price=1.0)
    any_service.offer(CPU, provider="azure", region="eastus", zone="eastus-1", price=0.4)

    def prices(query: str) -> list[float | None]:
        return [offer["price_usd_hour"] for offer in any_service.get(f"/v1/offers?{query}").json()["items"]]

    assert prices("") == [0.4, 1.0, 25.0, 60.0, None]
    assert prices("gpu=H100:8") == [25.0, 60.0, None]
    assert prices("gpu=80GB%2B") == [25.0, 60.0, None]
    assert prices("gpu=24GB") == [1.0]
    assert prices("provider=gcp") == [1.0, None]
    assert prices("capacity_type=spot") == [25.0]
    first = any_service.get("/v1/offers?limit=3").json()
    assert prices(f"limit=3&cursor={first['next_cursor']}") == [60.0, None]
    assert any_service.get("/v1/offers?gpu=H1000").status_code == 422


def test_instances_are_listed_with_their_job_and_only_to_their_project(any_service: Service) -> None:
    theirs = any_service.submit(any_service.token(Role.MEMBER, "theirs"))["id"]
    any_service.attempt(theirs)
    (instance,) = any_service.get("/v1/instances").json()["items"]
    assert (instance["job_id"], instance["project"], instance["state"]) == (theirs, "theirs", "running")
    assert any_service.get("/v1/instances", any_service.token(Role.ADMIN, "mine")).json()["items"] == []
    assert any_service.get("/v1/instances?state=terminated").json()["items"] == []
    assert len(any_service.get(f"/v1/instances?all=true&job={theirs}").json()["items"]) == 1
    assert any_service.get("/v1/instances?state=asleep").status_code == 422


def test_each_try_of_an_instance_is_one_row_of_attempts(service: Service) -> None:
    job_id = service.submit()["id"]
    service.attempt(job_id)
    rows = service.database.read(lambda session: session.exec(select(Attempt)).all())
    listed = service.get(f"/v1/jobs/{job_id}/attempts").json()["items"]
    assert [row.id for row in rows] == [attempt["id"] for attempt in listed]
