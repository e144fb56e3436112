"""The `accounts:` section of the settings that points the real adapters at the local clouds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.catalogue import catalogue

PROJECT = "sandbox-project"
SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
RESOURCE_GROUP = "sandbox"
_AZURE_IMAGE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute"
    "/galleries/corral/images/corral"
)
_KEYS = "[default]\naws_access_key_id = AKIASANDBOX000000000\naws_secret_access_key = not-a-secret\n"


def accounts(endpoints: Mapping[str, str], folder: Path) -> list[dict[str, Any]]:
    """One account per face that is there, with all of its catalogue's regions.

    folder: where an EC2 credentials file is written; its keys open nothing.
    """
    special: dict[str, dict[str, Any]] = {
        "aws": {"credentials": {"file": str(_credentials(folder))}},
        "gcp": {"project": PROJECT, "image": f"projects/{PROJECT}/global/images/family/corral"},
        "azure": {"subscription": SUBSCRIPTION, "resource_group": RESOURCE_GROUP, "image": _AZURE_IMAGE},
    }
    return [
        {
            "name": f"sandbox-{provider}",
            "provider": provider,
            "endpoint": endpoints[provider],
            "regions": {region: {} for region in catalogue(provider).regions},
            **rest,
        }
        for provider, rest in special.items()
        if provider in endpoints
    ]


def _credentials(folder: Path) -> Path:
    path = folder / "aws-credentials.ini"
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(_KEYS)
    return path
