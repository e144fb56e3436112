"""What the agent tells the service about the machine. GPUs through NVML, where there is a driver."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from agent import processes


def facts(service_url: str, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """The machine's part of hello."""
    return {
        "boot_id": processes.boot_id(),
        "private_ip": private_ip(service_url),
        "cpus": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": gpus,
    }


def private_ip(service_url: str) -> str:
    """The address that this machine uses towards the service. Nothing is sent: connecting a datagram
    socket only asks the kernel for a route.
    """
    parts = urlsplit(service_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for host in (parts.hostname or "", "192.0.2.1"):  # RFC 5737: an address of nobody, for the default route
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


class Gpus:
    """NVIDIA GPUs. Without a driver, or without `pynvml`, there are none."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        if not os.path.exists("/dev/nvidiactl"):
            return
        try:
            import pynvml

            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            self._nvml = pynvml
        except Exception:  # NVML has an exception class per error; all mean that nothing can be read
            self._handles = []

    def inventory(self) -> list[dict[str, Any]]:
        """Name and memory of each."""
        found = []
        for handle in self._handles:
            name = self._nvml.nvmlDeviceGetName(handle)
            memory = self._nvml.nvmlDeviceGetMemoryInfo(handle).total
            found.append({"name": name if isinstance(name, str) else name.decode(), "memory_bytes": memory})
        return found

    def usage(self) -> list[dict[str, Any]]:
        """Utilisation (0 to 1) and memory in use of each; None where the driver will not say."""
        return [self._usage(handle) for handle in self._handles]

    def _usage(self, handle: Any) -> dict[str, Any]:
        try:
            busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
            used = self._nvml.nvmlDeviceGetMemoryInfo(handle).used
        except self._nvml.NVMLError:  # a GPU that fell off the bus
            return {"utilization": None, "memory_used_bytes": None}
        return {"utilization": busy, "memory_used_bytes": used}
