"""A canonical spec while it is put together: what was said, where the user said it, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from service.api.errors import described
from service.api.problems import FieldError, InvalidFieldsError
from service.jobs.gpus import UnknownGpuError
from service.jobs.spec import JobSpec
from service.jobs.unsupported import UNSUPPORTED

Reader = Callable[["Draft", Any, str], None]

# What a pattern means, for people; by canonical path.
_PATTERNS = {
    "name": "is at most 64 lower-case letters, digits and . _ -, beginning and ending with a letter or digit",
    "env": "is named by letters, digits and _, not beginning with a digit",
    "secrets": "is named by letters, digits and _, not beginning with a digit",
    "checkpoint.path": "is an absolute path on one line",
    "files": "has a path inside the job's directory and a sha256 of 64 hex digits",
    "workdir": "is the sha256 of an uploaded archive; `corral run` packs and uploads a folder",
    "git.url": "begins with https://, ssh:// or git@",
    "git.ref": "is a branch, tag or commit",
    "container": "is an image's name without spaces",
    "allow": "is a place: aws, aws/us-east-1 or aws/us-east-1/use1-az4 (also gcp/…, azure/…)",
    "deny": "is a place: aws, aws/us-east-1 or aws/us-east-1/use1-az4 (also gcp/…, azure/…)",
    "labels": "is named by lower-case letters, digits, _ and -, at most 63",
}


class Draft:
    """Collects values under canonical paths (`resources.gpu.count`), each with the user's own path."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.project: str | None = None
        self.said: dict[str, str] = {}  # what is kept as a moment, as it was written: `8h` stays `8h`

    def put(self, target: str, value: Any, origin: str) -> None:
        """Say a value. Saying it twice is an error, even if both agree: one may be changed alone later."""
        if target in self.origins:
            self.wrong(origin, f"says the same as {self.origins[target]}; give one of the two")
            return
        self.values[target] = value
        self.origins[target] = origin

    def wrong(self, origin: str, problem: str, allowed: tuple[str, ...] = ()) -> None:
        """Note an error about one of the user's fields."""
        error = FieldError(origin, problem, allowed)
        if error not in self.errors:
            self.errors.append(error)

    def read_each(self, data: Mapping[str, Any], readers: Mapping[str, Reader], prefix: str) -> None:
        """Hand each field of a mapping to its reader; refuse those that have none."""
        for key, value in data.items():
            origin = f"{prefix}{key}"
            reader = readers.get(key)
            if reader is not None:
                if value is not None:
                    self.read(reader, value, origin)
            elif origin in UNSUPPORTED:
                self.wrong(origin, UNSUPPORTED[origin])
            else:
                near = get_close_matches(str(key), readers, 1)
                meant = f"; did you mean {prefix}{near[0]}?" if near else ""
                self.wrong(origin, f"is not a field of a job{meant}", tuple(sorted(readers)))

    def read(self, reader: Reader, value: Any, origin: str) -> None:
        """Run one reader; what it raises is an error of the field."""
        try:
            reader(self, value, origin)
        except UnknownGpuError as error:
            self.wrong(origin, str(error), error.near)
        except ValueError as error:
            self.wrong(origin, str(error))

    def finish(self) -> JobSpec:
        """The spec. InvalidFieldsError with every error, each under the field that the user wrote."""
        spec: JobSpec | None = None
        try:
            spec = JobSpec.model_validate(_nested(self.values))
        except ValidationError as error:
            named = {fault.field for fault in self.errors}
            for fault in error.errors():
                found = self._field_error(fault)
                if found.field not in named:
                    self.errors.append(found)
        if self.errors or spec is None:
            raise InvalidFieldsError(self.errors)
        return spec

    def _field_error(self, fault: Any) -> FieldError:
        path = [str(part) for part in fault["loc"] if part != "[key]"]
        problem, allowed = described(fault)
        if fault["type"] == "string_pattern_mismatch":
            known = (".".join(path[:length]) for length in range(len(path), 0, -1))
            problem = next((_PATTERNS[key] for key in known if key in _PATTERNS), problem)
        return FieldError(self._origin(path), problem, allowed)

    def origin(self, target: str) -> str:
        """The path as the user wrote it of a canonical one."""
        return self._origin(target.split("."))

    def _origin(self, path: list[str]) -> str:
        """The user's path: of the longest part that they wrote, and what is below it."""
        for length in range(len(path), 0, -1):
            origin = self.origins.get(".".join(path[:length]))
            if origin is not None:
                return ".".join([origin, *path[length:]])
        return ".".join(path) or "job"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for target, value in values.items():
        *parents, last = target.split(".")
        below = result
        for parent in parents:
            below = below.setdefault(parent, {})
        below[last] = value
    return result
