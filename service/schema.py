"""Every table, so that migrations and tests see the whole schema."""

from __future__ import annotations

from sqlmodel import SQLModel

from service.attempts import model as _attempts
from service.blobs import model as _blobs
from service.events import model as _events
from service.instances import model as _instances
from service.jobs import model as _jobs
from service.logs import model as _logs
from service.market import model as _market
from service.nodes import model as _nodes
from service.notifications import model as _notifications
from service.projects import model as _projects
from service.quota_desk import model as _quota_desk
from service.quotas import model as _quotas
from service.reservations import model as _reservations

metadata = SQLModel.metadata
MODULES = (
    _attempts,
    _blobs,
    _events,
    _instances,
    _jobs,
    _logs,
    _market,
    _nodes,
    _notifications,
    _projects,
    _quota_desk,
    _quotas,
    _reservations,
)
