"""How the C library shares out memory among the threads of the pools."""

from __future__ import annotations

import ctypes

M_ARENA_MAX = -8
"""The parameter's number. [glibc, malloc.h; mallopt(3)]"""
ARENAS = 2


def bound_arenas() -> bool:
    """Let all threads allocate from two arenas; to be called before any is started. False where the C library
    knows no such thing.

    glibc gives each thread an arena of its own, up to eight per core, and each keeps what a large answer
    once took: a pool per region would hold that many times over. Hardly anything waits for it, since the
    interpreter runs one thread at a time.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    return bool(mallopt(M_ARENA_MAX, ARENAS))
