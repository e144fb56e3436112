"""What an instance is handed at birth: cloud-init writes one file, the image does the rest."""

from __future__ import annotations

import json

PROTOCOL = 1
AGENT_FILE = "/etc/corral/agent.json"


def user_data(*, service_url: str, claim: str, provider: str, ca: str | None) -> str:
    """A #cloud-config (JSON is YAML) with nothing secret in it but the claim code."""
    agent = {
        "protocol": PROTOCOL,
        "service_url": service_url,
        "claim_code": claim,
        "provider": provider,
        "ca": ca,
    }
    config = {
        "write_files": [
            {
                "path": AGENT_FILE,
                "owner": "root:root",
                "permissions": "0600",
                "content": json.dumps(agent, sort_keys=True),
            }
        ]
    }
    return "#cloud-config\n" + json.dumps(config, sort_keys=True) + "\n"
