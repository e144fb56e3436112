"""A cloud in memory, for tests and simulation: deterministic, synchronous, moved by the clock it is given."""

from providers.memory.adapter import MemoryProvider
from providers.memory.cloud import LaunchCall, MemoryCloud
from providers.memory.limits import Limit
from providers.memory.machines import Machine
from providers.memory.reviews import Answer, Review

__all__ = ["Answer", "LaunchCall", "Limit", "Machine", "MemoryCloud", "MemoryProvider", "Review"]
