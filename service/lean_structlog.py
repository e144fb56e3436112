"""Imports structlog without rich, which it would load for tracebacks that a service does not draw: 6 MB.

Must be imported before anything else that imports structlog; where that came first it changes nothing.
"""

from __future__ import annotations

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]
else:
    import structlog

__all__ = ["structlog"]
