"""A job as the policies see it."""

from __future__ import annotations

from datetime import datetime, timedelta

from policies.model import GpuNeed, Needs
from policies.model import Job as PolicyJob
from providers.vocabulary import Scope
from service.jobs.model import Job
from service.jobs.spec import JobSpec, Resources


def policy_job(job: Job) -> PolicyJob:
    """The view of a job row; its spec was validated when it was submitted."""
    return view(
        JobSpec.model_validate(job.spec), job.id, job.submitted_at, job.waiting_since or job.submitted_at
    )


def view(spec: JobSpec, job_id: str, submitted_at: datetime, waiting_since: datetime) -> PolicyJob:
    """The view of a spec, for a plan before there is a row."""
    return PolicyJob(
        id=job_id,
        run_class=spec.run_class,
        needs=_needs(spec.resources),
        submitted_at=submitted_at,
        waiting_since=waiting_since,
        priority=spec.priority,
        spot=spec.spot.use,
        spot_wait=timedelta(seconds=spec.spot.wait_seconds),
        max_price=spec.max_price,
        allow=tuple(_place(text) for text in spec.allow),
        deny=tuple(_place(text) for text in spec.deny),
        image=spec.image,
    )


def _needs(resources: Resources) -> Needs:
    gpu = resources.gpu
    return Needs(
        gpu=GpuNeed(gpu.count, gpu.name, gpu.min_memory_gb, gpu.max_memory_gb) if gpu else None,
        cpus=resources.cpus,
        memory_gib=resources.memory_gib,
        nodes=resources.nodes,
    )


def _place(text: str) -> Scope:
    provider, region, zone = (*text.split("/"), None, None)[:3]
    return Scope(provider=provider, region=region, zone=zone)
