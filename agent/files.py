"""What the job finds in its working directory: archive, repository, single files."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from agent.archive import HostileArchiveError, unpack
from agent.client import ServiceClient
from agent.failure import JobError, disk_full, is_disk_full
from agent.paths import Paths
from agent.protocol import Assignment, Blob, ExitReason, Git
from agent.stages import Command, Exit

_DIGEST_TRIES = 3
_GIT_PROTOCOLS = "https:http:ssh:git:file"

Retrying = Callable[[Callable[[], None]], None]  # calls again while the service is away
Runner = Callable[[str, Command], Exit]  # runs a stage to its end


def fetch(
    assignment: Assignment, paths: Paths, client: ServiceClient, retrying: Retrying, run: Runner
) -> None:
    """Fill the working directory afresh. Raises JobError (files_failed or disk_full)."""
    shutil.rmtree(paths.job, ignore_errors=True)
    for folder in (paths.work, paths.job / "home", paths.job / "tmp"):
        folder.mkdir(parents=True, mode=0o700)
    try:
        if assignment.git:
            _clone(assignment.git, paths, run)
        if assignment.workdir:
            _unpack(assignment.workdir, paths, client, retrying)
        for file in assignment.files:
            _place(file, paths, client, retrying)
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(paths.work, "the job's files do not fit;") from error
        raise JobError(ExitReason.FILES_FAILED, f"{error.strerror}: {error.filename}") from error


def _unpack(workdir: Blob, paths: Paths, client: ServiceClient, retrying: Retrying) -> None:
    archive = _download(workdir, paths.job, client, retrying)
    try:
        unpack(archive, paths.work)
    except HostileArchiveError as error:
        raise JobError(ExitReason.FILES_FAILED, f"workdir: {error}") from error
    finally:
        archive.unlink()


def _place(file: Blob, paths: Paths, client: ServiceClient, retrying: Retrying) -> None:
    parts = Path(file.path).parts
    if not parts or Path(file.path).is_absolute() or ".." in parts:
        raise JobError(ExitReason.FILES_FAILED, f"files: {file.path!r} points outside the working directory")
    target = paths.work.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(paths.work.resolve()):
        raise JobError(ExitReason.FILES_FAILED, f"files: {file.path!r} leads outside through a link")
    os.replace(_download(file, paths.job, client, retrying), target)


def _download(blob: Blob, folder: Path, client: ServiceClient, retrying: Retrying) -> Path:
    """A temporary file with the blob's bytes, checked against its hash."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="blob-")
    os.close(descriptor)
    place = Path(name)

    digest = hashlib.sha256()

    def once() -> None:
        nonlocal digest
        digest = hashlib.sha256()
        with place.open("wb") as sink:

            def take(chunk: bytes) -> None:
                digest.update(chunk)
                sink.write(chunk)

            client.download(blob.url, take)

    for _ in range(_DIGEST_TRIES):
        retrying(once)
        if digest.hexdigest() == blob.sha256:
            place.chmod(0o644)
            return place
    place.unlink()
    what = blob.path or "workdir"
    raise JobError(ExitReason.FILES_FAILED, f"{what}: the bytes that came do not have hash {blob.sha256}")


def _clone(git: Git, paths: Paths, run: Runner) -> None:
    """Fetch one commit; where the server gives no single commit by its hash, the whole history."""
    program = shutil.which("git")
    if program is None:
        raise JobError(ExitReason.FILES_FAILED, "git is not installed in the image")
    if git.url.startswith("-") or git.ref.startswith("-") or "::" in git.url:
        raise JobError(ExitReason.FILES_FAILED, f"git: {without_credentials(git.url)!r} is not allowed")
    script = (
        'git init -q . && git remote add origin "$1" && '
        '{ git fetch -q --depth 1 origin "$2" && git checkout -q FETCH_HEAD || '
        '{ git fetch -q --tags origin "+refs/heads/*:refs/remotes/origin/*" && git checkout -q "$2" --; }; }'
        " && "
        "git submodule -q update --init --depth 1"
    )
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(paths.job / "home"),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": _GIT_PROTOCOLS,
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new",
    }
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"):
        if name in os.environ:
            environment[name] = os.environ[name]
    argv = ["/bin/sh", "-c", script, "sh", git.url, git.ref]
    ended = run("git", Command(argv, environment, paths.work, _credentials(git.url)))
    if not ended.succeeded:
        if shutil.disk_usage(paths.work).free < 1 << 20:
            raise disk_full(paths.work, "the repository does not fit;")
        raise JobError(
            ExitReason.FILES_FAILED, f"git: {without_credentials(git.url)} at {git.ref}: {ended}; see the log"
        )


def without_credentials(url: str) -> str:
    """The URL as it may be shown."""
    return re.sub(r"(://)[^/@]*@", r"\1", url)


def _credentials(url: str) -> list[str]:
    found = re.search(r"://([^/@]*)@", url)
    return [part for part in found.group(1).split(":") if part not in ("", "git")] if found else []
