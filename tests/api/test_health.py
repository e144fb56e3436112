"""Alive, ready, measured, described. Case ids: API-01, CFG-02."""

from __future__ import annotations

import re
import time
from typing import Any

from fastapi.routing import iter_route_contexts
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from clock import REAL
from service.api.app import create_app
from service.loops import Loops
from service.projects.model import Role
from service.upgrade import HEAD
from tests.api.service import Service


class Status:
    """Loops that say of themselves what a test wants."""

    def __init__(self, last_run: Any, error: str | None = None, stopping: bool = False) -> None:
        self.stopping = stopping
        self._status = {"scheduler": {"last_run": last_run, "last_error": error}}

    def status(self) -> dict[str, dict[str, Any]]:
        return self._status


def test_readyz_shows_config_schema_and_loops(service: Service) -> None:
    service.client.app.state.api.loops = Status(service.now)  # type: ignore[attr-defined]
    body = service.get("/readyz", token="").json()
    assert body["status"] == "ready"
    assert body["config"] == service.configuration.hash
    assert body["schema"] == HEAD
    assert body["loops"] == {"scheduler": {"last_run": "2026-03-01T12:00:00Z", "failing": False}}


def test_API_01_readyz_turns_red_when_a_loop_does_not_advance(service: Service) -> None:
    service.client.app.state.api.loops = Status(service.now)  # type: ignore[attr-defined]
    service.clock.advance(121)
    answer = service.get("/readyz", token="")
    assert answer.status_code == 503
    assert "the loop scheduler has not run well since" in answer.json()["problems"][0]


def test_CFG_02_readyz_is_red_until_every_loop_has_run(service: Service) -> None:
    answer = service.get("/readyz", token="")
    assert (answer.status_code, answer.json()["problems"]) == (503, ["the loop none has not run yet"])
    service.client.app.state.api.loops = Status(None, "ValueError: canary")  # type: ignore[attr-defined]
    answer = service.get("/readyz", token="")
    assert answer.json()["problems"] == ["the loop scheduler has not run well"]
    assert "canary" not in answer.text


def test_the_services_own_loops_report_themselves(service: Service) -> None:
    turned: list[str] = []
    loops = Loops(REAL, {"scheduler": lambda ctx: turned.append("scheduler")})
    service.client.app.state.api.loops = loops  # type: ignore[attr-defined]
    loops.start(service.ctx)
    deadline = time.monotonic() + 5
    while loops.status()["scheduler"]["last_run"] is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert service.get("/readyz", token="").status_code == 200
    loops.stop()
    assert service.get("/readyz", token="").status_code == 503
    assert turned


def test_API_01_readyz_asks_the_database(service: Service) -> None:
    service.client.app.state.api.loops = Status(service.now)  # type: ignore[attr-defined]
    with service.database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    answer = service.get("/readyz", token="")
    assert (answer.status_code, "9999" in answer.json()["problems"][0]) == (503, True)
    with service.database.engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    answer = service.get("/readyz", token="")
    assert answer.json()["problems"] == ["the database does not answer"]


def test_while_it_stops_nothing_is_taken_in_and_readyz_says_so(service: Service) -> None:
    loops = Status(service.now, stopping=True)
    app = create_app(service.ctx, service.configuration, loops)
    service.client.app = app
    client = type(service.client)(app, raise_server_exceptions=False)
    headers = {"Authorization": f"Bearer {service.admin}"}
    answer = client.post("/v1/jobs", json={"name": "a", "run": "x"}, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert client.get("/healthz").status_code == 200
    assert "the service is stopping" in client.get("/readyz").json()["problems"]
    app.state.api.close()


def test_metrics_label_routes_by_their_template_and_count_states(service: Service) -> None:
    service.submit()
    service.get("/v1/jobs/job-0000000000000000")
    service.get("/nowhere-1")
    service.get("/nowhere-2")
    found = service.get("/metrics", service.token(Role.VIEWER))
    assert found.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }
    counted = "corral_http_request_seconds_count"
    got = (counted, ("method", "GET"), ("route", "/v1/jobs/{job_id}"), ("status", "404"))
    assert samples[got] == 1
    assert samples[(counted, ("method", "GET"), ("route", "unmatched"), ("status", "404"))] == 2
    assert samples[(counted, ("method", "POST"), ("route", "/v1/jobs"), ("status", "201"))] == 1
    assert samples[("corral_jobs", ("state", "queued"))] == 1
    assert not [key for key in samples if "nowhere" in str(key)]
    assert samples[("corral_events_total", ("kind", "job_submitted"))] >= 1


def test_the_address_alone_leads_to_the_description(service: Service) -> None:
    answer = service.get("/", token="", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "docs")


def test_metrics_need_a_token_that_is_good_for_all_projects(service: Service) -> None:
    assert service.get("/metrics", token="").status_code == 401
    assert service.get("/metrics", service.token(Role.ADMIN, "mine")).status_code == 403


def test_the_description_has_every_route_and_each_says_how_it_fails(service: Service) -> None:
    document = service.get("/openapi.json", token="").json()
    described = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    routes = {
        f"{method} {route.path}"
        for route in iter_route_contexts(service.client.app.routes)  # type: ignore[attr-defined]
        for method in route.methods or ()
        if route.path != "/" and not str(route.path).startswith(("/docs", "/openapi"))
    }
    assert described == routes
    submit = document["paths"]["/v1/jobs"]["post"]
    assert set(submit["requestBody"]["content"]) == {"application/json", "application/yaml"}
    assert "422" in submit["responses"]
    assert submit["security"] == [{"token": []}]
    assert "security" not in document["paths"]["/healthz"]["get"]
    references = set(
        re.findall(r'"#/components/schemas/([^"]+)"', service.get("/openapi.json", token="").text)
    )
    assert references <= set(document["components"]["schemas"])


def test_the_page_loads_nothing_from_elsewhere(service: Service) -> None:
    page = service.get("/docs", token="")
    assert page.status_code == 200
    assert "http" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', page.text):
        asset = service.get(f"/docs/{name}", token="")
        assert (asset.status_code, bool(asset.content)) == (200, True), name
    bundle = service.get("/docs/assets/swagger-ui-bundle.js", token="").text
    assert "3.1" in bundle
