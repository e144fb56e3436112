"""Instances of the cloud in memory. Their state follows from times, so nothing has to tick."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.vocabulary import (
    CloudInstance,
    EndReason,
    InstanceRef,
    InstanceState,
    LaunchRequest,
)


@dataclass(slots=True, eq=False)
class Machine:
    """One instance that was really made. Times are the clock's; None has not been decided yet.

    `stopping_at` is when it begins to end, `over_at` when it is gone and no longer billed. Until
    `visible_at` reads deny knowing of it (read-after-write lag).
    """

    provider_id: str
    node: int
    request: LaunchRequest
    created_at: datetime
    visible_at: datetime
    running_at: datetime
    private_ip: str
    public_ip: str
    stopping_at: datetime | None = None
    over_at: datetime | None = None
    off_at: datetime | None = None
    notice_deadline: datetime | None = None
    end_reason: EndReason | None = None

    @property
    def name(self) -> str:
        return self.request.names()[self.node]

    @property
    def token(self) -> str:
        return self.request.token

    @property
    def ref(self) -> InstanceRef:
        """What the service keeps of it."""
        offer = self.request.offer
        return InstanceRef(offer.region, offer.zone, self.provider_id, capacity_type=offer.capacity_type)

    def over(self, now: datetime) -> bool:
        """True once it is gone, and its capacity, disk and address with it."""
        return self.over_at is not None and now >= self.over_at

    def state(self, now: datetime) -> InstanceState:
        """What the cloud says of it once it says anything."""
        if self.over(now):
            return InstanceState.TERMINATED
        if self.stopping_at is not None and now >= self.stopping_at:
            return InstanceState.STOPPING
        if self.off_at is not None and now >= self.off_at:
            return InstanceState.STOPPED
        return InstanceState.RUNNING if now >= self.running_at else InstanceState.PENDING

    def end(self, at: datetime, takes: timedelta, reason: EndReason) -> None:
        """Begin to end at a time; an earlier end that is already decided stands."""
        if self.stopping_at is None or at < self.stopping_at:
            self.stopping_at, self.over_at, self.end_reason = at, at + takes, reason

    def shown(self, now: datetime) -> CloudInstance:
        """The instance as a listing shows it."""
        offer = self.request.offer
        ending = self.stopping_at is not None and now >= self.stopping_at
        off = self.off_at is not None and now >= self.off_at
        return CloudInstance(
            provider_id=self.provider_id,
            region=offer.region,
            zone=offer.zone,
            state=self.state(now),
            name=self.name,
            node=self.node,
            tags=dict(self.request.tags),
            instance_type=offer.instance_type,
            capacity_type=offer.capacity_type,
            created_at=self.created_at,
            private_ip=self.private_ip,
            public_ip=self.public_ip,
            end_reason=self.end_reason if ending or off else None,
        )
