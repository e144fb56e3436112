"""A cloud in memory, for tests and simulation: deterministic, synchronous, moved by the clock it is given."""

from providers.memory.adapter import MemoryProvider
from providers.memory.cloud import LaunchCall, MemoryCloud
from providers.memory.machines import Machine

__all__ = ["LaunchCall", "Machine", "MemoryCloud", "MemoryProvider"]
