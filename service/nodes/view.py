"""A node as people see it, and what they type for it."""

from __future__ import annotations

from shlex import quote
from typing import Any

from providers.accelerators import MEMORY_GB
from providers.vocabulary import Accelerator
from service.api.problems import invalid
from service.context import Context
from service.jobs.gpus import UnknownGpuError, read_gpu
from service.market.offers import read_type
from service.money import from_micros
from service.nodes.model import Node

MOST_GPUS = 64


def accelerator(text: str | None) -> Accelerator | None:
    """`H100:8` as what a machine has. Problem 422 for anything that names no single model and count."""
    if text is None:
        return None
    try:
        wish = read_gpu(text)
    except UnknownGpuError as error:
        raise invalid("gpu", str(error), error.near) from None
    except ValueError as error:
        raise invalid("gpu", str(error)) from None
    if len(wish.names) != 1 or not 1 <= wish.count <= MOST_GPUS:
        raise invalid("gpu", "name one model and how many of it, for example H100:8")
    return Accelerator(wish.names[0], wish.count, MEMORY_GB[wish.names[0]])


def command(ctx: Context, code: str) -> str:
    """What to run on the machine. It fetches the agent first where the service has one to give."""
    url = ctx.service_url
    start = f"sudo python3 agent.pyz node {quote(url)} {code}"
    if ctx.settings.agent_zipapp is None:
        return start
    place = quote(f"{url}/agent/v1/node/agent.pyz")
    return f"curl -fsSo agent.pyz -H 'Authorization: Bearer {code}' {place} && {start}"


def shown(node: Node, ctx: Context) -> dict[str, Any]:
    """A node over HTTP. `gpus_found` is what its agent sees; null before it has spoken."""
    type_ = read_type(node.type)
    return {
        "name": node.name,
        "pool": node.pool,
        "state": node.state(ctx.now(), ctx.settings.times.silent_after),
        "draining": node.draining,
        "region": node.region,
        "zone": node.zone,
        "instance_type": node.instance_type,
        "gpu": type_.accelerator.name if type_.accelerator else None,
        "gpu_count": type_.accelerator.count if type_.accelerator else 0,
        "gpus_found": len(node.facts["gpus"]) if node.facts else None,
        "vcpus": type_.vcpus,
        "memory_gib": type_.memory_gib,
        "fabric": type_.fabric,
        "price_usd_hour": from_micros(node.price_micros),
        "job_id": node.job_id,
        "attempt_id": node.attempt_id,
        "seen_at": node.seen_at,
        "agent_version": node.agent_version,
        "private_ip": node.private_ip,
        "created_at": node.created_at,
        "enrolled_at": node.enrolled_at,
    }
