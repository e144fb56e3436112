"""What an agent fetches after hello: the job, with environment, secrets, files and the checkpoint store."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session

from service.api.problems import Problem
from service.attempts.model import Attempt
from service.context import Context
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.projects.secrets import reveal
from service.storage import job_store

BLOBS = "/agent/v1/blobs/"


def assignment(session: Session, ctx: Context, instance: Instance, attempt: Attempt) -> dict[str, Any]:
    """The reply to GET /agent/v1/assignment. Secrets leave the service here and nowhere else."""
    job = session.get_one(Job, attempt.job_id)
    spec = JobSpec.model_validate(job.spec)
    return {
        "job_id": job.id,
        "job_name": job.name,
        "attempt_id": attempt.id,
        "epoch": attempt.epoch,
        "rank": instance.node,
        "num_nodes": attempt.nodes,
        "gpus_per_node": attempt.gpus_per_node,
        "setup": spec.setup,
        "run": spec.run,
        "container": spec.container,
        "env": dict(spec.env),
        "secrets": _secrets(session, ctx, job, spec),
        "files": [{"path": f.path, "sha256": f.sha256, "url": BLOBS + f.sha256} for f in spec.files],
        "workdir": {"sha256": spec.workdir, "url": BLOBS + spec.workdir} if spec.workdir else None,
        "git": {"url": spec.git.url, "ref": spec.git.ref} if spec.git else None,
        "registry_auth": None,
        "checkpoint": _checkpoint(ctx, job, spec),
        "max_duration_seconds": spec.max_duration_seconds,
        "log_limit_bytes": ctx.settings.limits.log_per_attempt,
    }


def _secrets(session: Session, ctx: Context, job: Job, spec: JobSpec) -> dict[str, str]:
    if not spec.secrets:
        return {}
    if ctx.secret_keys is None:
        raise Problem(503, "the service has no key for secrets now", code="no_secret_key")
    return reveal(session, ctx.secret_keys, job.project_id, spec.secrets)


def _checkpoint(ctx: Context, job: Job, spec: JobSpec) -> dict[str, Any] | None:
    if spec.checkpoint is None:
        return None
    return {
        "path": spec.checkpoint.path,
        "grace_seconds": spec.checkpoint.grace_seconds,
        "store": job_store(ctx.settings, spec.checkpoint),
        "prefix": f"checkpoints/{job.id}",
    }
