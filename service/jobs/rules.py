"""Which rule a job goes by: the first of the settings' routes that matches, else that of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlmodel import Session

from policies.model import RunClass
from policies.rule import DEFAULT_RULES, POLICY_OF_CLASS, Policy, Rule
from service.jobs.model import Job
from service.projects.model import Project
from service.settings import Route, Settings

_SECONDS = ("spot_wait", "min_dwell", "hold", "spot_without_checkpoint")
_AS_THEY_ARE = ("moves", "min_saving", "max_moves")


def rule_for(settings: Settings, run_class: RunClass, project: str, labels: Mapping[str, str]) -> Rule:
    """The rule for jobs of a class, a project (by name) and labels."""
    for route in settings.routes:
        if _matches(route, run_class, project, labels):
            return rule_of(route)
    return DEFAULT_RULES[POLICY_OF_CLASS[run_class]]


def rule_of_job(session: Session, settings: Settings, job: Job) -> Rule:
    """The rule that a job goes by now."""
    project = session.get_one(Project, job.project_id)
    return rule_for(settings, job.run_class, project.name, job.spec.get("labels") or {})


def rule_of(route: Route) -> Rule:
    """The policy's own rule with what the route sets."""
    given: dict[str, Any] = {
        **{name: timedelta(seconds=value) for name, value in _given(route, _SECONDS)},
        **dict(_given(route, _AS_THEY_ARE)),
    }
    if route.capacity_types is not None:
        given["capacity_types"] = frozenset(route.capacity_types)
    return replace(DEFAULT_RULES[Policy(route.policy)], **given)


def _given(route: Route, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    return [(name, getattr(route, name)) for name in names if getattr(route, name) is not None]


def _matches(route: Route, run_class: RunClass, project: str, labels: Mapping[str, str]) -> bool:
    return (
        route.run_class in (None, run_class)
        and route.project in (None, project)
        and all(labels.get(name) == value for name, value in route.labels.items())
    )
