"""Compute Engine on loopback."""

from sandbox.faces.gce.face import app

__all__ = ["app"]
