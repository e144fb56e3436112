"""A job as the policies see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from policies.egress import CheckpointEgress, Home
from policies.model import GpuNeed, Needs, Place
from policies.model import Job as PolicyJob
from providers.vocabulary import Scope
from service.jobs.model import Job
from service.jobs.progress import USUAL_RESTART, Progress
from service.jobs.spec import Checkpoint, JobSpec, Network, Resources
from service.settings import Settings
from service.storage import STORAGE, storage_url, store_options

REVIEW = timedelta(seconds=60)
"""How often the scheduler looks again at a job that runs, if anything could come of it."""
ENDING = timedelta(seconds=120)
"""How long a cloud may go on billing an instance that was told to end."""

_PROVIDERS: Mapping[str, str] = {"s3": "aws", "gs": "gcp", "az": "azure"}
_REGION_OPTIONS = ("region", "aws_region", "location")


def policy_job(job: Job, settings: Settings, progress: Progress) -> PolicyJob:
    """The view of a job row; its spec was validated when it was submitted."""
    return view(
        JobSpec.model_validate(job.spec),
        job.id,
        job.submitted_at,
        job.waiting_since or job.submitted_at,
        settings,
        progress,
        checkpointed=job.checkpoint is not None,
    )


def view(
    spec: JobSpec,
    job_id: str,
    submitted_at: datetime,
    waiting_since: datetime,
    settings: Settings,
    progress: Progress | None = None,
    *,
    checkpointed: bool = False,
) -> PolicyJob:
    """The view of a spec, before there is a row, or with what its attempts came to."""
    made = progress or Progress(USUAL_RESTART)
    grace = timedelta(seconds=spec.checkpoint.grace_seconds) if spec.checkpoint else timedelta(0)
    step = REVIEW + grace
    return PolicyJob(
        id=job_id,
        run_class=spec.run_class,
        needs=needs_of(spec.resources),
        submitted_at=submitted_at,
        waiting_since=waiting_since,
        priority=spec.priority,
        spot=spec.spot.use,
        spot_wait=timedelta(seconds=spec.spot.wait_seconds),
        max_price=spec.max_price,
        allow=tuple(_place(text) for text in spec.allow),
        deny=tuple(_place(text) for text in spec.deny),
        image=spec.image,
        deadline=spec.deadline,
        work_left=_work_left(spec, made),
        restart=made.restart,
        step=step,
        egress=egress_of(settings, spec.checkpoint) if checkpointed or made.live else {},
        money_left=_money_left(spec, made, step),
        placement=made.placement,
        resumes=spec.checkpoint is not None,
        ran=made.ran,
        moves=made.moves,
        vain_moves=made.vain_moves,
    )


def _work_left(spec: JobSpec, made: Progress) -> timedelta | None:
    """What is left of the declared work. One that runs on past it may end at any moment."""
    if spec.duration_seconds is None:
        return None
    return max(timedelta(0), timedelta(seconds=spec.duration_seconds) - made.computed)


def _money_left(spec: JobSpec, made: Progress, step: timedelta) -> float | None:
    """What may still be spent, less what ending all that is billed now will cost."""
    if spec.max_cost is None:
        return None
    return spec.max_cost - made.spent - made.hourly * (ENDING + step - REVIEW).total_seconds() / 3600


def egress_of(settings: Settings, checkpoint: Checkpoint | None) -> Mapping[Place, float]:
    """USD for reading a checkpoint at a place; nothing where none is kept, or its store costs nothing."""
    if checkpoint is None:
        return {}
    url = storage_url(settings) if checkpoint.to == STORAGE else checkpoint.to
    provider = _PROVIDERS.get(url.partition("://")[0])
    if provider is None:
        return {}
    options = settings.storage_options if checkpoint.to == STORAGE else store_options(settings, url) or {}
    region = next((options[name] for name in _REGION_OPTIONS if name in options), None)
    return CheckpointEgress(Home(provider, region), checkpoint.size_gib)


def needs_of(resources: Resources) -> Needs:
    """What each node of a job must have."""
    gpu = resources.gpu
    return Needs(
        gpu=GpuNeed(gpu.count, gpu.name, gpu.min_memory_gb, gpu.max_memory_gb) if gpu else None,
        cpus=resources.cpus,
        memory_gib=resources.memory_gib,
        nodes=resources.nodes,
        fabric=resources.network is Network.FAST,
    )


def _place(text: str) -> Scope:
    provider, region, zone = (*text.split("/"), None, None)[:3]
    return Scope(provider=provider, region=region, zone=zone)
