"""Taking in a job: what settings and project allow, then one transaction with the row and its event."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlmodel import Session, col, select

from policies.model import SpotUse
from policies.rule import Rule
from service.api.problems import FieldError, InvalidFieldsError, Problem
from service.blobs.store import missing_blobs, named_blobs, note_use
from service.context import Context
from service.identifiers import new_id
from service.jobs.draft import Draft
from service.jobs.repository import Row, by_key, insert_job
from service.jobs.rules import rule_for
from service.jobs.shown import SECRET_NAME, gpu_text
from service.jobs.spec import Checkpoint, JobSpec
from service.projects.model import Project, Secret
from service.settings import Settings, is_below
from service.states import JobState
from service.storage import STORAGE, checkpoint_url, store_options

MAX_KEY = 128


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job row and whether this request made it."""

    row: Row
    new: bool


def check(session: Session, settings: Settings, project: Project, spec: JobSpec, draft: Draft) -> None:
    """InvalidFieldsError if the settings or the project do not allow the spec."""
    errors = [
        *_beyond_settings(settings, spec),
        *_set_back_by_spot(settings, project, spec),
        *_not_in_project(session, project, spec),
    ]
    if errors:
        raise InvalidFieldsError([_as_written(draft, error) for error in errors])


def submit(
    session: Session,
    ctx: Context,
    project: Project,
    spec: JobSpec,
    *,
    key: str | None,
    by: str,
    said: Mapping[str, str],
) -> Submitted:
    """Write the job, or find the one that the same key made. Problem 409 if that one was another. `said`:
    fields as they were written, where what is kept of them depends on the moment.
    """
    document = spec.model_dump(mode="json", by_alias=True)
    digest = body_hash({**document, **said})
    if key is not None:
        before = by_key(session, project.id, key)
        if before is not None:
            return _again(before, digest)
    now = ctx.now()
    note_use(session, project.id, named_blobs(spec), now)
    row: dict[str, Any] = {
        "id": new_id("job", now, ctx.chance),
        "project_id": project.id,
        "name": spec.name,
        "run_class": spec.run_class,
        "priority": spec.priority,
        "state": JobState.QUEUED,
        "spec": document,
        "idempotency_key": key,
        "body_hash": digest,
        "submitted_by": by,
        "submitted_at": now,
        "waiting_since": now,
        "wake_at": now,
        "deadline": spec.deadline,
        "deadline_at_risk": False,
        "epoch": 0,
        "attempts": 0,
        "decision": {},
        "retries_used": {},
    }
    event = {
        "at": now,
        "kind": "job_submitted",
        "subject": "job",
        "subject_id": row["id"],
        "job_id": row["id"],
        "project_id": project.id,
        "message": f"{spec.name} was submitted",
        "data": {
            "by": by,
            "class": spec.run_class,
            "gpu": gpu_text(document["resources"]["gpu"]),
            "nodes": spec.resources.nodes,
        },
    }
    insert_job(session, row, event)
    absent = dict.fromkeys(
        ("reason", "detail", "started_at", "ended_at", "cancel_requested_at", "checkpoint", "checkpoint_at")
    )
    return Submitted({**absent, **row}, True)


def _again(row: Row, digest: str) -> Submitted:
    if row["body_hash"] != digest:
        raise Problem(
            409,
            f"the Idempotency-Key was used for another spec: job {row['id']}",
            code="idempotency_key_reused",
            job_id=row["id"],
        )
    return Submitted(row, False)


def body_hash(document: Any) -> str:
    """The hash of a canonical spec: the same however it was spelt."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def warnings(settings: Settings, project: str, spec: JobSpec) -> list[str]:
    """What is accepted but may surprise."""
    found = []
    rule = rule_for(settings, spec.run_class, project, spec.labels)
    if spec.max_duration_seconds is None:
        days = settings.times.max_age_without_limit / 86400
        found.append(f"max_duration is not set: each instance is ended when it is {days:g} days old")
    if spec.checkpoint is None and spec.spot.use is not SpotUse.NEVER:
        long = spec.spot.use is SpotUse.AUTO and (spec.deadline is not None or _is_long(rule, spec))
        found.append(
            "no checkpoint: a preemption would set the job back to its beginning, so it is not put on spot"
            if long
            else "no checkpoint: after a preemption on spot the job begins again"
        )
    secret_like = sorted(name for name in spec.env if SECRET_NAME.search(name))
    if secret_like:
        found.append(f"env.{secret_like[0]} is kept as it is; `corral secret set` keeps values encrypted")
    to = spec.checkpoint.to if spec.checkpoint else STORAGE
    if to != STORAGE and not to.startswith("file://") and store_options(settings, to) is None:
        found.append(f"the settings know no credentials for {to}: the instances' own role must reach it")
    return found


def _beyond_settings(settings: Settings, spec: JobSpec) -> Iterator[FieldError]:
    limit = settings.limits.max_nodes
    if spec.resources.nodes > limit:
        yield FieldError("resources.nodes", f"is {spec.resources.nodes}; at most {limit} are allowed here")
    if spec.checkpoint is not None:
        yield from _store_out_of_reach(settings, spec.checkpoint)


def _set_back_by_spot(settings: Settings, project: Project, spec: JobSpec) -> Iterator[FieldError]:
    rule = rule_for(settings, spec.run_class, project.name, spec.labels)
    if spec.checkpoint is None and spec.spot.use is SpotUse.ONLY and _is_long(rule, spec):
        hours = rule.spot_without_checkpoint.total_seconds() / 3600
        yield FieldError(
            "spot.use",
            f"is only spot for a job longer than {hours:g} h without a checkpoint: each preemption would set "
            "it back to its beginning. Give checkpoint.path, or insist with spot.use: force",
        )


def _is_long(rule: Rule, spec: JobSpec) -> bool:
    """Whether a job is known to be too long to be begun again."""
    seconds = rule.spot_without_checkpoint.total_seconds()
    return spec.duration_seconds is not None and spec.duration_seconds > seconds


def _store_out_of_reach(settings: Settings, checkpoint: Checkpoint) -> Iterator[FieldError]:
    """The service's own store is not a job's, and only instances of local clouds reach a folder of ours."""
    own = settings.storage_url
    if own is not None and is_below(checkpoint.to, own):
        yield FieldError("checkpoint.to", "is the service's own store", ("storage",))
        return
    if all(account.endpoint is not None for account in settings.accounts):
        return
    allowed = ("s3://…", "gs://…", "az://…")
    if checkpoint.to.startswith("file://"):
        yield FieldError("checkpoint.to", "is a folder, which instances in a cloud cannot reach", allowed)
    elif checkpoint.to == STORAGE and checkpoint_url(settings).startswith("file://"):
        problem = "is a folder of the service, which instances in a cloud cannot reach; set checkpoint_url"
        yield FieldError("checkpoint.to", problem, allowed)


def _not_in_project(session: Session, project: Project, spec: JobSpec) -> Iterator[FieldError]:
    if spec.secrets:
        known = set(
            session.exec(
                select(Secret.name).where(
                    col(Secret.project_id) == project.id, col(Secret.name).in_(spec.secrets)
                )
            ).all()
        )
        for name in spec.secrets:
            if name not in known:
                problem = f"project {project.name} has no secret {name}; set it with `corral secret set`"
                yield FieldError("secrets", problem)
    missing = missing_blobs(session, project.id, [file.sha256 for file in spec.files])
    for number, file in enumerate(spec.files):
        if file.sha256 in missing:
            yield FieldError(f"files.{number}.sha256", "was not uploaded to this project")
    if spec.workdir and missing_blobs(session, project.id, [spec.workdir]):
        yield FieldError("workdir", "was not uploaded to this project")


def _as_written(draft: Draft, error: FieldError) -> FieldError:
    return FieldError(draft.origin(error.field), error.problem, error.allowed)
