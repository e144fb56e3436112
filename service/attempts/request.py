"""The exact launch request of an attempt: made once, kept in its row, sent again unchanged or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

from providers.vocabulary import CapacityType, LaunchRequest, OfferKey
from service.agents.claim import claim_code
from service.agents.user_data import user_data
from service.jobs.spec import JobSpec, Network
from service.settings import Times

CLAIM = "@claim@"
"""Stands for the claim code in the stored request: the code itself is stored nowhere."""

AGE_MARGIN_SECONDS = 3600


def launch_token(attempt_id: str, key: OfferKey, nodes: int) -> str:
    """32 hex digits. Zone, type and market are in it, so that it can never be reused for another."""
    return hashlib.sha256(f"{attempt_id}|{key}|{key.account}|{nodes}".encode()).hexdigest()[:32]


def agent_max_age(spec: JobSpec, times: Times) -> float:
    """Seconds after which an instance of the job is ended whatever happens."""
    if spec.max_duration_seconds is None:
        return times.max_age_without_limit
    grace = spec.checkpoint.grace_seconds if spec.checkpoint else 0
    return spec.max_duration_seconds + grace + times.boot


def launch_request(
    spec: JobSpec,
    key: OfferKey,
    *,
    attempt_id: str,
    job_id: str,
    deployment_id: str,
    service_url: str,
    service_ca: str | None,
    subnet: str | None,
    times: Times,
) -> LaunchRequest:
    """The request, with a placeholder where the claim code goes."""
    nodes = spec.resources.nodes
    token = launch_token(attempt_id, key, nodes)
    return LaunchRequest(
        token=token,
        offer=key,
        nodes=nodes,
        user_data=user_data(service_url=service_url, claim=CLAIM, provider=key.provider, ca=service_ca),
        tags={
            "corral-deployment": deployment_id,
            "corral-job": job_id,
            "corral-attempt": attempt_id,
            "corral-token": token,
        },
        disk_gib=spec.resources.disk_gib,
        image=spec.image,
        subnet=subnet,
        # The cloud's own limit is never below the agent's.
        max_age_seconds=int(agent_max_age(spec, times) + times.boot + AGE_MARGIN_SECONDS),
        fabric=spec.resources.network is Network.FAST,
        max_price=spec.max_price if key.capacity_type is CapacityType.SPOT else None,
    )


def stored(request: LaunchRequest) -> dict[str, Any]:
    """As kept in the attempt's row."""
    return asdict(request)


def sendable(row: dict[str, Any], deployment_key: bytes, attempt_id: str) -> LaunchRequest:
    """The request of a row, with its claim code."""
    values = dict(row)
    offer = dict(values.pop("offer"))
    offer["capacity_type"] = CapacityType(offer["capacity_type"])
    text = values.pop("user_data").replace(CLAIM, claim_code(deployment_key, attempt_id))
    return LaunchRequest(**values, offer=OfferKey(**offer), user_data=text)
