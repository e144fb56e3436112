"""Runs the Dockerfile's steps in debootstrap roots, where no container engine is at hand. Needs root.

    python deploy/docker_check.py            # or: make docker-check

Each stage starts from a minimal Debian, RUN happens in a chroot with namespaces of its own, COPY honours
.dockerignore, and at the end ENTRYPOINT and CMD run as USER until HEALTHCHECK passes. What this machine
needs to reach its package registries (proxy, certificates, index) is lent to RUN and taken away again.

What it does not prove: that an engine accepts the file, the official base image (it has a few packages
more than the one made here), layers and their cache, the image's size, other architectures, VOLUME and
EXPOSE (only read), and limits that an engine would set on the process.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
KNOWN = {
    "FROM",
    "RUN",
    "COPY",
    "ENV",
    "WORKDIR",
    "USER",
    "VOLUME",
    "EXPOSE",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
}
LENT_VARIABLES = re.compile(
    r"^(https?_proxy|no_proxy|ssl_cert_file|ssl_cert_dir|(pip|uv)_[a-z_]+)$", re.IGNORECASE
)
LENT_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/uv/uv.toml", "/etc/apt/apt.conf.d")
LENT_FOLDERS = ("/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
HEALTH_SECONDS = 60


class CheckError(Exception):
    """A step that failed, or a line that this check cannot read."""


@dataclass
class Stage:
    """A stage as far as it has been built."""

    root: Path
    name: str
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"
    health: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, rest) of each logical line; CheckError on an instruction that is not known here."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    found = []
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        word, _, rest = line.partition(" ")
        if word.upper() not in KNOWN:
            raise CheckError(f"{word}: this check does not know the instruction")
        found.append((word.upper(), rest.strip()))
    return found


class Check:
    """Builds the stages below `work` and keeps them there until it is cleaned."""

    def __init__(self, work: Path, mirror: str, lend: list[str]) -> None:
        self.work = work
        self.mirror = mirror
        self.lend = lend
        self.stages: list[Stage] = []

    def build(self, steps: list[tuple[str, str]]) -> Stage:
        for word, rest in steps:
            print(f"--> {word} {rest[:100]}", flush=True)
            if word == "FROM":
                self._from(rest)
            else:
                getattr(self, f"_{word.lower()}")(self.stages[-1], rest)
        return self.stages[-1]

    def _from(self, rest: str) -> None:
        match = re.fullmatch(r"debian:([a-z]+)-slim(?:\s+AS\s+(\S+))?", rest, re.IGNORECASE)
        if match is None:
            raise CheckError(f"FROM {rest}: only debian:RELEASE-slim can be made here")
        base = self.work / f"base-{match[1]}"
        if not base.exists():
            part = base.with_suffix(".part")
            run(["debootstrap", "--variant=minbase", match[1], str(part), self.mirror], quiet=True)
            part.rename(base)
        root = self.work / f"stage-{len(self.stages)}"
        run(["cp", "-a", "--reflink=auto", str(base), str(root)])
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.stages.append(Stage(root, match[2] or str(len(self.stages)), {"PATH": path}))

    def _run(self, stage: Stage, rest: str) -> None:
        self.chroot(stage, ["/bin/sh", "-c", rest], lend=True)

    def _copy(self, stage: Stage, rest: str) -> None:
        words = shlex.split(rest)
        source_root, ignore = PROJECT, ignored(PROJECT / ".dockerignore")
        if words[0].startswith("--from="):
            name = words.pop(0).removeprefix("--from=")
            source_root, ignore = next(s.root for s in self.stages if s.name == name), lambda _path: False
        *sources, target = words
        into = Path(stage.workdir, target)
        for source in sources:
            copy(source_root, source.strip("/"), stage.root / str(into).lstrip("/"), ignore, target)

    def _env(self, stage: Stage, rest: str) -> None:
        stage.env |= dict(word.split("=", 1) for word in shlex.split(rest))

    def _workdir(self, stage: Stage, rest: str) -> None:
        stage.workdir = str(Path(stage.workdir, rest))
        (stage.root / stage.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _user(self, stage: Stage, rest: str) -> None:
        stage.user = rest

    def _volume(self, stage: Stage, rest: str) -> None:
        if not (stage.root / rest.lstrip("/")).is_dir():
            raise CheckError(f"VOLUME {rest}: no such directory in the image")

    def _expose(self, _stage: Stage, rest: str) -> None:
        int(rest)

    def _healthcheck(self, stage: Stage, rest: str) -> None:
        stage.health = json.loads(rest.partition("CMD")[2])

    def _entrypoint(self, stage: Stage, rest: str) -> None:
        stage.entrypoint = json.loads(rest)

    def _cmd(self, stage: Stage, rest: str) -> None:
        stage.command = json.loads(rest)

    def chroot(self, stage: Stage, command: list[str], *, lend: bool = False) -> None:
        """Run to the end; CheckError unless it exits with 0."""
        result = subprocess.run(self.argv(stage, command, lend), check=False)
        if result.returncode:
            raise CheckError(f"exit code {result.returncode}: {' '.join(command)[:300]}")

    def argv(self, stage: Stage, command: list[str], lend: bool) -> list[str]:
        """How a command is started inside. Its mounts and processes are its own, so nothing stays."""
        root = shlex.quote(str(stage.root))
        env = dict(stage.env) | (lent_variables() if lend else {})
        mounts = [f"mount -t proc proc {root}/proc"]
        if lend:
            mounts += [bind(stage.root, path) for path in (*LENT_FOLDERS, *LENT_FILES, *self.lend)]
        user = [] if stage.user == "root" else [f"--userspec={stage.user}:{stage.user}"]
        inner = ["/bin/sh", "-c", f'cd {shlex.quote(stage.workdir)} && exec "$@"', "sh", *command]
        environment = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
        line = " && ".join(
            [
                *filter(None, mounts),
                shlex.join(["exec", "chroot", *user, str(stage.root), *environment, *inner]),
            ]
        )
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", line]


def bind(root: Path, path: str) -> str:
    """The shell line that lends one path of this machine; empty if it is not there."""
    source = Path(path).resolve()
    target = root / path.lstrip("/")
    if not source.exists():
        return ""
    quoted = shlex.quote(str(target))
    make = f"mkdir -p {quoted}" if source.is_dir() else f"mkdir -p $(dirname {quoted}) && touch {quoted}"
    return f"{make} && mount --bind {shlex.quote(str(source))} {quoted}"


def lent_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if LENT_VARIABLES.match(name)}


def ignored(file: Path) -> Callable[[str], bool]:
    """Whether .dockerignore leaves a path out: the last pattern that matches it or a parent decides."""
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip() and line[0] != "#"]

    def verdict(path: str) -> bool:
        out = False
        parts = path.split("/")
        parents = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        for line in lines:
            pattern = line.lstrip("!")
            names = parts if pattern.startswith("**/") else parents
            if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
                out = not line.startswith("!")
        return out

    return verdict


def copy(root: Path, source: str, into: Path, ignore: Callable[[str], bool], target: str) -> None:
    """COPY of one source: a directory's contents, or a file."""
    start = root / source
    if start.is_file():
        place = into / start.name if target.endswith("/") else into
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(start, place, follow_symlinks=False)
        return
    if not start.is_dir():
        raise CheckError(f"COPY {source}: no such file or directory")
    for folder, names, files in os.walk(start):
        here = Path(folder)
        relative = here.relative_to(root)
        links = [name for name in names if (here / name).is_symlink()]
        names[:] = [name for name in names if name not in links]
        for name in [*files, *links]:
            if not ignore(str(relative / name)):
                place = into / here.relative_to(start) / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here / name, place, follow_symlinks=False)


def run(command: list[str], *, quiet: bool = False) -> None:
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE if quiet else None, text=True)
    if result.returncode:
        raise CheckError(
            f"exit code {result.returncode}: {' '.join(command)}\n{(result.stdout or '')[-2000:]}"
        )


def start_and_probe(check: Check, stage: Stage) -> None:
    """Start what the image starts, as its user, and wait until its health check passes; then stop it."""
    check.chroot(stage, [*stage.entrypoint, "init"])
    print(f"--> as {stage.user}: {shlex.join(stage.entrypoint + stage.command)}", flush=True)
    # No signal handler of `unshare` passes SIGTERM on, so the group is signalled.
    process = subprocess.Popen(
        check.argv(stage, [*stage.entrypoint, *stage.command], False), start_new_session=True
    )
    try:
        until = time.monotonic() + HEALTH_SECONDS
        while True:
            if process.poll() is not None:
                raise CheckError(f"it ended by itself with exit code {process.returncode}")
            probe = subprocess.run(check.argv(stage, stage.health, False), check=False, capture_output=True)
            if probe.returncode == 0:
                break
            if time.monotonic() > until:
                raise CheckError(f"not healthy after {HEALTH_SECONDS} s: {probe.stderr.decode()[-500:]}")
            time.sleep(0.5)
        print("--> healthy", flush=True)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise CheckError("it did not end within 15 s of SIGTERM") from None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the Dockerfile's steps without a container engine.")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/corral-docker-check"))  # noqa: S108
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where debootstrap reads")
    parser.add_argument("--lend", action="append", default=[], metavar="PATH", help="a path that RUN needs")
    options = parser.parse_args()
    missing = [tool for tool in ("debootstrap", "unshare", "chroot") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        print(f"docker-check: needs root and {', '.join(missing) or 'nothing else'}", file=sys.stderr)
        return 2
    options.work.mkdir(parents=True, exist_ok=True)
    for old in options.work.glob("stage-*"):
        shutil.rmtree(old)
    started = time.monotonic()
    try:
        check = Check(options.work, options.mirror, options.lend)
        final = check.build(instructions((PROJECT / "Dockerfile").read_text()))
        start_and_probe(check, final)
    except CheckError as error:
        print(f"docker-check: failed: {error}", file=sys.stderr)
        return 1
    size = subprocess.run(
        ["du", "-sm", str(final.root)], check=True, capture_output=True, text=True
    ).stdout.split()[0]
    print(f"docker-check: passed in {time.monotonic() - started:.0f} s; final stage {size} MB.")
    print("docker-check: no image was built. " + " ".join((__doc__ or "").split("\n\n")[3].split()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
