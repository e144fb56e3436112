"""TLS that ends in the service itself: `listen.tls_cert` and `tls_key`."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx2
import pytest

from agent.client import RefusedError, ServiceClient
from clock import REAL
from tests.api.test_serve import Process
from tests.certificates import self_signed


def test_people_and_agents_reach_it_over_tls_and_nobody_in_clear(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    config = tmp_path / "corral.yaml"
    config.write_text(
        f"data_dir: {tmp_path / 'data'}\nlisten: {{port: 0, tls_cert: {certificate}, tls_key: {key}}}\n"
        f"public_ca: {certificate}\n"
    )
    process = Process({"CORRAL_CONFIG": str(config)})
    try:
        address = process.until_ready().address
        assert address.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert httpx2.get(f"{address}/healthz", verify=trusted).json() == {"status": "ok"}
        with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
            httpx2.get(f"{address}/healthz")
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"{address.replace('https', 'http')}/healthz")
        agent = ServiceClient(address, REAL, ca=certificate.read_text())
        with pytest.raises(RefusedError, match="claim code"):
            agent.post("/agent/v1/hello", HELLO)
        agent.close()
    finally:
        process.end()


HELLO = {
    "protocol": 1,
    "claim_code": "a-1.0",
    "instance_id": "i-1",
    "boot_id": "b",
    "agent_version": "0.1.0",
}
