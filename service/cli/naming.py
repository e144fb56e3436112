"""A job as people call it: by its id, or by its name."""

from __future__ import annotations

import re

from service.cli.client import Client
from service.cli.failure import CommandError, ExitCode, UsageError

_ID = re.compile(r"^job-[0-9a-z]{16}$")
_OVER = ("succeeded", "failed", "cancelled")


def job_id(client: Client, job: str, *, to_change: bool = False) -> str:
    """The id; of a name, its newest job. UsageError if something is `to_change` and several that are not over
    have the name: which one is meant is not ours to guess.
    """
    if _ID.match(job):
        return job
    found = list(client.pages("/v1/jobs", {"name": job}, limit=20))
    if not found:
        raise CommandError(f"no such job: {job} is neither an id nor a name", ExitCode.REFUSED)
    live = [item["id"] for item in found if item["state"] not in _OVER]
    if to_change and len(live) > 1:
        raise UsageError(f"several jobs are called {job}; give an id: {', '.join(live)}")
    newest: str = (live or [item["id"] for item in found])[0]
    return newest
