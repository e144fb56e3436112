"""What `corral run` takes from this machine: a directory to work in, and single files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from service.cli.failure import UsageError

if TYPE_CHECKING:
    from service.cli.client import Client

_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_CHUNK = 1 << 20


def with_uploads(client: Client, spec: dict[str, Any], beside: Path, workdir: Path | None) -> dict[str, Any]:
    """The spec with hashes where it named things of this machine, which the service then has.

    beside: what relative paths of the spec are relative to. workdir: the directory that --workdir names.
    """
    project = spec.get("project")
    result = dict(spec)
    named = spec.get("workdir")
    if workdir is not None:
        result["workdir"] = send_directory(client, workdir, project)
    elif isinstance(named, str) and not _SHA256.match(named):
        result["workdir"] = send_directory(client, beside / named, project)
    if isinstance(spec.get("files"), list):
        result["files"] = [_file(client, item, beside, project) for item in spec["files"]]
    if isinstance(spec.get("file_mounts"), dict):
        result["file_mounts"] = {
            path: {"sha256": send_file(client, beside / source, project)} if _is_local(source) else source
            for path, source in spec["file_mounts"].items()
        }
    return result


def without_uploads(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without what names things of this machine, which make no difference to where a job can run."""
    result = {name: value for name, value in spec.items() if name not in ("workdir", "files")}
    if isinstance(spec.get("file_mounts"), dict):
        result["file_mounts"] = {
            path: source for path, source in spec["file_mounts"].items() if not _is_local(source)
        }
    return result


def send_directory(client: Client, directory: Path, project: str | None) -> str:
    """Pack a directory and send it, unless the service has it; its hash."""
    from service.cli.packing import pack
    from service.cli.show import note, waiting

    with TemporaryDirectory(prefix="corral-") as folder:
        with waiting(f"packing {directory}"):
            package = pack(directory, Path(folder) / "workdir.tar.gz")
        for name in package.left_out:
            note(f"left out: {name}")
        _send(client, package.path, package.sha256, f"{package.files} files", project)
    return package.sha256


def send_file(client: Client, file: Path, project: str | None) -> str:
    """Send one file, unless the service has it; its hash."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    _send(client, file, digest.hexdigest(), file.name, project)
    return digest.hexdigest()


def _file(client: Client, item: Any, beside: Path, project: str | None) -> Any:
    if not isinstance(item, str):
        return item
    return {"path": item, "sha256": send_file(client, beside / item, project)}


def _is_local(source: Any) -> bool:
    return isinstance(source, str) and "://" not in source


def _send(client: Client, path: Path, sha256: str, what: str, project: str | None) -> None:
    from service.cli.show import waiting

    target, params = f"/v1/blobs/{sha256}", {"project": project}
    if client.exists(target, params):
        return
    with waiting(f"sending {what}, {path.stat().st_size / 1e6:.1f} MB"):
        client.upload(target, path, params)
