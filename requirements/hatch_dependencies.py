"""Reads the project's dependencies from requirements/service.in, so that they are written once."""

from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ServiceDependencies(MetadataHookInterface):
    """Fills `dependencies` for the wheel."""

    def update(self, metadata: dict) -> None:  # type: ignore[type-arg]
        lines = (Path(self.root) / "requirements" / "service.in").read_text().splitlines()
        metadata["dependencies"] = [line for line in lines if line and not line.startswith(("#", "-"))]
