"""Who may call what: every route stands here, and one that does not is refused.

A role holds all that the roles below it hold. A token of a project sees that project only, whatever its role;
what belongs to another is answered with 404, as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.projects.model import Role

# Without any token. /metrics asks for one itself, unless it has a listener of its own.
PUBLIC = frozenset(
    {
        "GET /healthz",
        "GET /readyz",
        "GET /",
        "GET /docs",
        "GET /docs/assets/{name}",
        "GET /openapi.json",
        "POST /slack/interactions",  # signed by Slack: see service.notifications.interactions
    }
)

# Agents have sessions of their own: see service.agents.
AGENT_PREFIX = "/agent/v1/"

REQUIRED: Mapping[str, Role] = {
    "GET /metrics": Role.VIEWER,
    "GET /v1/whoami": Role.VIEWER,
    "POST /v1/jobs": Role.MEMBER,
    "POST /v1/jobs:plan": Role.VIEWER,
    "GET /v1/jobs": Role.VIEWER,
    "GET /v1/jobs/{job_id}": Role.VIEWER,
    "POST /v1/jobs/{job_id}:cancel": Role.MEMBER,
    "GET /v1/jobs/{job_id}:explain": Role.VIEWER,
    "GET /v1/jobs/{job_id}/attempts": Role.VIEWER,
    "GET /v1/jobs/{job_id}/events": Role.VIEWER,
    "GET /v1/jobs/{job_id}/logs": Role.VIEWER,
    "GET /v1/events": Role.VIEWER,
    "GET /v1/instances": Role.VIEWER,
    "POST /v1/instances/{instance_id}:adopt": Role.ADMIN,
    "POST /v1/instances/{instance_id}:end": Role.ADMIN,
    "POST /v1/deployment:confirm-sweep": Role.ADMIN,
    "GET /v1/offers": Role.VIEWER,
    "GET /v1/costs": Role.VIEWER,
    "GET /v1/quotas": Role.VIEWER,
    "GET /v1/quota-history": Role.VIEWER,
    "GET /v1/quota-waits": Role.VIEWER,
    "GET /v1/quota-requests": Role.VIEWER,
    "POST /v1/quota-requests": Role.MEMBER,
    "POST /v1/quota-requests:plan": Role.VIEWER,
    "GET /v1/quota-requests/{request_id}": Role.VIEWER,
    "POST /v1/quota-requests/{request_id}:approve": Role.ADMIN,
    "POST /v1/quota-requests/{request_id}:deny": Role.ADMIN,
    "POST /v1/quota-requests/{request_id}:withdraw": Role.ADMIN,
    "GET /v1/capacity-waits": Role.VIEWER,
    "GET /v1/reservations": Role.VIEWER,
    "GET /v1/nodes": Role.VIEWER,
    "POST /v1/nodes": Role.ADMIN,
    "POST /v1/nodes/{name}:drain": Role.ADMIN,
    "POST /v1/nodes/{name}:resume": Role.ADMIN,
    "DELETE /v1/nodes/{name}": Role.ADMIN,
    "GET /v1/notifications": Role.ADMIN,
    "GET /v1/notifications/{message_id}": Role.ADMIN,
    "POST /v1/notifications/{message_id}:resend": Role.ADMIN,
    "GET /v1/notification-channels": Role.ADMIN,
    "POST /v1/notification-channels/{channel}:test": Role.ADMIN,
    "PUT /v1/blobs/{sha256}": Role.MEMBER,
    "HEAD /v1/blobs/{sha256}": Role.MEMBER,
    "GET /v1/projects": Role.VIEWER,
    "POST /v1/projects": Role.ADMIN,
    "GET /v1/projects/{project}": Role.VIEWER,
    "DELETE /v1/projects/{project}": Role.ADMIN,
    "GET /v1/projects/{project}/secrets": Role.MEMBER,
    "GET /v1/projects/{project}/secrets/{name}": Role.MEMBER,
    "PUT /v1/projects/{project}/secrets/{name}": Role.MEMBER,
    "DELETE /v1/projects/{project}/secrets/{name}": Role.MEMBER,
    "GET /v1/tokens": Role.ADMIN,
    "POST /v1/tokens": Role.ADMIN,
    "DELETE /v1/tokens/{token_id}": Role.ADMIN,
}
