"""From the spellings that people know, ours, SkyPilot's and dstack's, to the one canonical spec.

One table per section: field → reader. A reader says canonical values of what it is given; whatever is in no
table is refused, by `service.jobs.unsupported` if it is known elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from service.api.problems import FieldError, InvalidFieldsError
from service.api.texts import unclean
from service.jobs.draft import Draft, Reader
from service.jobs.gpus import read_gpu
from service.jobs.places import PLACES
from service.jobs.quantities import deadline_at, duration_seconds, number, size_gib, span, whole
from service.jobs.unsupported import NOT_YET

MOST_ERRORS = 20
# Fields of a YAML document whose values stay as they were written: `1.10` is a version, not a number.
TEXTS_BELOW = frozenset({"env", "envs", "labels", "tags"})


def canonical(data: Any, now: datetime) -> Draft:
    """Read what a user sent. The draft's `finish` gives the spec, or every error at once."""
    if not isinstance(data, Mapping):
        raise InvalidFieldsError(
            [FieldError("job", "is a mapping of fields such as name, resources and run")]
        )
    broken = [FieldError(path or "job", "holds a NUL or half a surrogate pair") for path in unclean(data)]
    if broken:
        raise InvalidFieldsError(broken[:MOST_ERRORS])
    draft = Draft(now)
    draft.read_each(data, TOP, "")
    return draft


def _as(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        draft.put(target, value, origin)

    return put


def _text(target: str) -> Reader:
    """A text, or a list of lines that are run one after the other."""

    def put(draft: Draft, value: Any, origin: str) -> None:
        if isinstance(value, list):
            if not all(isinstance(line, str) for line in value):
                raise ValueError("as a list it holds commands, each a text")
            value = "\n".join(value)
        if not isinstance(value, str):
            raise ValueError("must be a text; write it in quotes")
        draft.put(target, value, origin)

    return put


def _seconds(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        if value is False or value == "off":
            return
        draft.put(target, duration_seconds(value), origin)

    return put


def _least(target: str, read: Any, convert: Any) -> Reader:
    """A quantity of which at least the lower end is needed."""

    def put(draft: Draft, value: Any, origin: str) -> None:
        wanted = span(value, read)
        if wanted.low != wanted.high and wanted.high is not None:
            draft.warnings.append(f"{origin}: the upper end, {wanted.high:g}, is not enforced")
        draft.put(target, convert(wanted.low or 0), origin)

    return put


def _size(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        draft.put(target, size_gib(value), origin)

    return put


def _number(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        draft.put(target, number(value), origin)

    return put


def _count(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        if isinstance(value, dict):
            raise ValueError(f"a range of nodes {NOT_YET}; write a number")
        draft.put(target, whole(number(value)), origin)

    return put


def _section(readers: Mapping[str, Reader]) -> Reader:
    def read(draft: Draft, value: Any, origin: str) -> None:
        if not isinstance(value, Mapping):
            raise ValueError(f"is a mapping; its fields are {', '.join(sorted(readers))}")
        draft.read_each(value, readers, f"{origin}.")

    return read


def _gpu(draft: Draft, value: Any, origin: str) -> None:
    wish = read_gpu(value)
    draft.put("resources.gpu.count", wish.count, origin)
    draft.put("resources.gpu.name", wish.names, f"{origin}")
    if wish.memory is not None:
        draft.put("resources.gpu.min_memory_gb", wish.memory.low, origin)
        draft.put("resources.gpu.max_memory_gb", wish.memory.high, origin)
    draft.warnings.extend(f"{origin}: {note}" for note in wish.notes)


def _disk(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, Mapping) and set(value) == {"size"}:
        value, origin = value["size"], f"{origin}.size"
    _least("resources.disk_gib", size_gib, whole)(draft, value, origin)


def _env(draft: Draft, value: Any, origin: str) -> None:
    """A mapping, or a list of NAME=VALUE. What has no value here would be taken from the sender's machine."""
    pairs: dict[str, Any] = {}
    if isinstance(value, Mapping):
        pairs = dict(value)
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        for item in value:
            name, equals, text = item.partition("=")
            if name in pairs:
                raise ValueError(f"{name} is given twice")
            pairs[name] = text if equals else None
    else:
        raise ValueError("is a mapping of names to values, or a list of NAME=VALUE")
    texts = {}
    for name, item in pairs.items():
        if isinstance(item, bool):
            item = str(item).lower()
        if item is None or isinstance(item, (dict, list)):
            draft.wrong(f"{origin}.{name}", "has no value; write one, or name a secret under `secrets`")
            continue
        texts[name] = str(item)
    draft.put("env", texts, origin)


def _secrets(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, Mapping):
        given = [name for name, item in value.items() if item is not None]
        if given:
            raise ValueError(
                f"holds a value for {given[0]}; set it with `corral secret set` and only name it here"
            )
        value = list(value)
    draft.put("secrets", value, origin)


def _use_spot(draft: Draft, value: Any, origin: str) -> None:
    if not isinstance(value, bool):
        raise ValueError("is true or false")
    draft.put("spot.use", "only" if value else "never", origin)


_POLICIES = {"spot": "only", "on-demand": "never", "on_demand": "never", "auto": "auto"}


def _spot_policy(draft: Draft, value: Any, origin: str) -> None:
    if value not in _POLICIES:
        draft.wrong(origin, "is not one of the allowed values", ("spot", "on-demand", "auto"))
        return
    draft.put("spot.use", _POLICIES[value], origin)


def _spot(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, bool):
        _use_spot(draft, value, origin)
    elif isinstance(value, str):
        draft.put("spot.use", value, origin)
    else:
        _section(SPOT)(draft, value, origin)


def _retry(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, bool):
        _on_events(draft, ["interruption", "error"] if value else [], origin)
        if not value:
            draft.put("retry.boot_failed", 0, origin)
        return
    _section(RETRY)(draft, value, origin)


_EVENTS = ("no-capacity", "interruption", "error")


def _on_events(draft: Draft, value: Any, origin: str) -> None:
    """dstack's reasons. A job of ours always waits for capacity, so `no-capacity` changes nothing."""
    if not isinstance(value, list) or any(event not in _EVENTS for event in value):
        draft.wrong(origin, "is a list of reasons to try again", _EVENTS)
        return
    if "interruption" not in value:
        draft.put("retry.preempted", 0, origin)
        draft.put("retry.lost", 0, origin)
    draft.put("retry.failed", 100 if "error" in value else 0, origin)


def _job_recovery(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, str):
        value = {"strategy": value}
    _section(JOB_RECOVERY)(draft, value, origin)


def _strategy(draft: Draft, value: Any, origin: str) -> None:
    """What SkyPilot calls EAGER_NEXT_REGION is what is done here: the place of a preemption is avoided."""
    if str(value).upper() not in ("EAGER_NEXT_REGION", "NONE"):
        raise ValueError(f"{value} {NOT_YET}; allowed: EAGER_NEXT_REGION")


def _exit_codes(draft: Draft, value: Any, origin: str) -> None:
    draft.put("retry.exit_codes", value if isinstance(value, list) else [value], origin)


def _deadline(draft: Draft, value: Any, origin: str) -> None:
    draft.put("deadline", deadline_at(value, draft.now), origin)
    draft.said["deadline"] = str(value)


# repo/name, repo/name:tag, name:tag; not the forms in which the clouds name images of machines.
_CONTAINER_NAME = re.compile(
    r"^(?!projects/|family/|self/|amazon/|\d{12}/|ssm:)"
    r"(?:[a-z0-9][\w.-]*(?:/[\w.-]+)+(?::[\w.-]+)?|[a-z][\w.-]*:[\w.-]+)$"
)


def _image(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, Mapping):
        raise ValueError(f"an image for each region {NOT_YET}; the settings' accounts name images per region")
    if isinstance(value, str) and value.startswith("docker:"):
        draft.put("container", value.removeprefix("docker:"), origin)
        return
    if isinstance(value, str) and _CONTAINER_NAME.match(value):
        raise ValueError("names a container image; write it under `container` (image is the machine's)")
    draft.put("image", value, origin)


def _type(draft: Draft, value: Any, origin: str) -> None:
    if value != "task":
        raise ValueError(f"{value} {NOT_YET}; allowed: task")


def _files(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        raise ValueError("names local files; `corral run` uploads them and writes {path, sha256}")
    draft.put("files", value, origin)


def _file_mounts(draft: Draft, value: Any, origin: str) -> None:
    """SkyPilot's mapping, as far as it means single files that were uploaded."""
    if not isinstance(value, Mapping):
        raise ValueError("is a mapping of paths to uploaded files")
    files = []
    for path, source in value.items():
        if not isinstance(source, Mapping) or set(source) != {"sha256"}:
            local = isinstance(source, str) and "://" not in source
            problem = (
                "names a local file; `corral run` uploads it and writes {sha256}"
                if local
                else f"mounting a bucket {NOT_YET}; `checkpoint.to` names where checkpoints go"
            )
            draft.wrong(f"{origin}.{path}", problem)
            continue
        files.append({"path": path, "sha256": source["sha256"]})
    draft.put("files", files, origin)


def _workdir(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, Mapping):
        _section(GIT)(draft, value, origin)
        return
    draft.put("workdir", value, origin)


def _git(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, str):
        _git_url(draft, value, origin)
        return
    _section(GIT)(draft, value, origin)


def _git_url(draft: Draft, value: Any, origin: str) -> None:
    if isinstance(value, str) and "://" in value and "@" in value.split("://", 1)[1].partition("/")[0]:
        user = value.split("://", 1)[1].partition("@")[0]
        if not value.startswith("ssh://") or ":" in user:
            raise ValueError("holds credentials; a URL is no place for them, use a secret")
    draft.put("git.url", value, origin)


def _class(draft: Draft, value: Any, origin: str) -> None:
    draft.put("class", "preprocessing" if value == "preprocess" else value, origin)


def _project(draft: Draft, value: Any, origin: str) -> None:
    if not isinstance(value, str):
        raise ValueError("is a project's name")
    draft.project = value


GIT: Mapping[str, Reader] = {"url": _git_url, "ref": _as("git.ref"), "branch": _as("git.ref")}
CHECKPOINT: Mapping[str, Reader] = {
    "path": _as("checkpoint.path"),
    "to": _as("checkpoint.to"),
    "uri": _as("checkpoint.to"),
    "grace": _seconds("checkpoint.grace_seconds"),
    "grace_seconds": _as("checkpoint.grace_seconds"),
    "size": _size("checkpoint.size_gib"),
    "size_gib": _as("checkpoint.size_gib"),
}
SPOT: Mapping[str, Reader] = {
    "use": _as("spot.use"),
    "wait": _seconds("spot.wait_seconds"),
    "wait_seconds": _as("spot.wait_seconds"),
}
RETRY: Mapping[str, Reader] = {
    "preempted": _as("retry.preempted"),
    "lost": _as("retry.lost"),
    "boot_failed": _as("retry.boot_failed"),
    "failed": _as("retry.failed"),
    "exit_codes": _exit_codes,
    "on_events": _on_events,
}
JOB_RECOVERY: Mapping[str, Reader] = {
    "strategy": _strategy,
    "max_restarts_on_errors": _as("retry.failed"),
    "recover_on_exit_codes": _exit_codes,
}
_TIERS = {"best": "fast", "standard": "any"}


def _network_tier(draft: Draft, value: Any, origin: str) -> None:
    """SkyPilot's word: `best` is the fastest interconnect that the type has."""
    if not isinstance(value, str) or value not in _TIERS:
        raise ValueError(f"is one of {', '.join(_TIERS)}")
    draft.put("resources.network", _TIERS[value], origin)


RESOURCES: Mapping[str, Reader] = {
    "gpu": _gpu,
    "gpus": _gpu,
    "accelerators": _gpu,
    "cpu": _least("resources.cpus", number, whole),
    "cpus": _least("resources.cpus", number, whole),
    "memory": _least("resources.memory_gib", size_gib, float),
    "memory_gib": _as("resources.memory_gib"),
    "disk": _disk,
    "disk_size": _disk,
    "disk_gib": _as("resources.disk_gib"),
    "nodes": _count("resources.nodes"),
    "num_nodes": _count("resources.nodes"),
    "network": _as("resources.network"),
    "network_tier": _network_tier,
    "use_spot": _use_spot,
    "max_hourly_cost": _number("max_price"),
    "job_recovery": _job_recovery,
    "image_id": _image,
    "labels": _as("labels"),
    "priority": _as("priority"),
    **PLACES,
}
TOP: Mapping[str, Reader] = {
    "name": _as("name"),
    "project": _project,
    "type": _type,
    "class": _class,
    "run_class": _class,
    "resources": _section(RESOURCES),
    "gpu": _gpu,
    "accelerators": _gpu,
    "nodes": _count("resources.nodes"),
    "num_nodes": _count("resources.nodes"),
    "image": _image,
    "image_id": _image,
    "container": _as("container"),
    "setup": _text("setup"),
    "run": _text("run"),
    "commands": _text("run"),
    "env": _env,
    "envs": _env,
    "secrets": _secrets,
    "files": _files,
    "file_mounts": _file_mounts,
    "workdir": _workdir,
    "git": _git,
    "checkpoint": _section(CHECKPOINT),
    "deadline": _deadline,
    "duration": _seconds("duration_seconds"),
    "duration_seconds": _as("duration_seconds"),
    "max_cost": _number("max_cost"),
    "budget": _number("max_cost"),
    "max_duration": _seconds("max_duration_seconds"),
    "max_duration_seconds": _as("max_duration_seconds"),
    "max_price": _number("max_price"),
    "max_hourly_cost": _number("max_price"),
    "priority": _as("priority"),
    "spot": _spot,
    "use_spot": _use_spot,
    "spot_policy": _spot_policy,
    "retry": _retry,
    "job_recovery": _job_recovery,
    "labels": _as("labels"),
    "tags": _as("labels"),
    **PLACES,
}
