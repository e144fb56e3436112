"""Whether an offer can serve a job at all, and if not, why: one reason, the first that holds."""

from __future__ import annotations

from policies.model import Job, Needs, Reason, SpotUse
from providers.vocabulary import CapacityType, InstanceType, Offer


def fits(needs: Needs, type_: InstanceType) -> tuple[Reason, str] | None:
    """None if the instance type has what a node needs; else the reason and what was compared."""
    if needs.gpu is not None:
        accelerator = type_.accelerator
        if accelerator is None:
            return Reason.WRONG_GPU, "no GPU"
        if needs.gpu.names and accelerator.name not in needs.gpu.names:
            return Reason.WRONG_GPU, f"{accelerator.name} is none of {', '.join(needs.gpu.names)}"
        if accelerator.count < needs.gpu.count:
            return Reason.TOO_SMALL, f"{accelerator.count} of {needs.gpu.count} GPUs"
        low, high = needs.gpu.min_memory_gb, needs.gpu.max_memory_gb
        if low is not None and accelerator.memory_gb < low:
            return Reason.WRONG_GPU, f"{accelerator.memory_gb:g} GB a GPU, {low:g} needed"
        if high is not None and accelerator.memory_gb > high:
            return Reason.WRONG_GPU, f"{accelerator.memory_gb:g} GB a GPU, at most {high:g} wanted"
    if type_.vcpus < needs.cpus:
        return Reason.TOO_SMALL, f"{type_.vcpus} of {needs.cpus} vCPUs"
    if type_.memory_gib < needs.memory_gib:
        return Reason.TOO_SMALL, f"{type_.memory_gib:g} of {needs.memory_gib:g} GiB memory"
    if needs.fabric and type_.fabric is None:
        return Reason.NO_FAST_NETWORK, "no interconnect of its own between nodes"
    return None


def permitted(job: Job, offer: Offer) -> tuple[Reason, str] | None:
    """None if the job's own rules let it run there; else the reason and the rule."""
    where = f"{offer.key.provider}/{offer.key.region}"
    if job.allow and not any(scope.covers(offer) for scope in job.allow):
        return Reason.NOT_ALLOWED, f"{where} is not in the job's allow list"
    if any(scope.covers(offer) for scope in job.deny):
        return Reason.NOT_ALLOWED, f"{where} is in the job's deny list"
    capacity_type = offer.key.capacity_type
    if capacity_type is CapacityType.SPOT and job.spot is SpotUse.NEVER:
        return Reason.SPOT_NOT_ALLOWED, "spot: never"
    if capacity_type is not CapacityType.SPOT and job.spot in (SpotUse.ONLY, SpotUse.FORCE):
        return Reason.SPOT_ONLY, f"spot: {job.spot}"
    return None


def affordable(job: Job, offer: Offer) -> tuple[Reason, str] | None:
    """None if the price is known and within the job's limit."""
    if offer.price is None:
        return Reason.PRICE_UNKNOWN, "no price known; an unknown price never wins"
    if job.max_price is not None and offer.price > job.max_price:
        return Reason.PRICE_TOO_HIGH, f"${offer.price:.4f}/h is above max_price ${job.max_price:.4f}/h"
    return None
