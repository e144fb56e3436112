"""Resource names of Compute Engine in the form that every endpoint takes."""

from __future__ import annotations

import re

_HOST = re.compile(r"^https?://[^/]+/(?:compute/v1/)?")


def partial_url(url: str) -> str:
    """Without the host: the API takes this form from whatever endpoint it is sent to."""
    return _HOST.sub("", url)


def subnet_url(project: str, region: str, name: str) -> str:
    """A subnetwork's partial URL from its name or any form of its URL."""
    bare = partial_url(name)
    return bare if "/" in bare else f"projects/{project}/regions/{region}/subnetworks/{bare}"
