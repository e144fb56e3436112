"""Adding a node: a code that is good once and for an hour, exchanged for a session that lasts."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, select

from providers.vocabulary import InstanceType
from service.agents.claim import session_hash
from service.api.problems import Problem
from service.context import Context
from service.events.record import record
from service.identifiers import new_id
from service.market.offers import read_type
from service.nodes.model import Node
from service.nodes.pools import refresh

CODE_PREFIX = "corral_enrol_"
SESSION_PREFIX = "corral_node_"
CODE_LASTS = timedelta(hours=1)
HOURS_A_MONTH = 730
GIB = 1 << 30
_NUMBER = re.compile(r"-?\d+$")


@dataclass(frozen=True, slots=True)
class NewNode:
    """What a person says of a machine. `price_micros`: millionths of a USD an hour."""

    name: str
    type: InstanceType
    region: str
    price_micros: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node's agent says of it. Sizes in bytes."""

    boot_id: str
    agent_version: str
    private_ip: str | None
    cpus: int
    memory_bytes: int
    gpus: list[dict[str, Any]]


def pool_of(name: str) -> str:
    """`rack1-07` and `rack1-08` are of the pool `rack1`; a name without a number is a pool of its own."""
    return _NUMBER.sub("", name) or name


def add_node(session: Session, ctx: Context, new: NewNode, *, by: str) -> tuple[Node, str]:
    """Enter a node and make its code, which is kept as a hash only. Problem 409 if the name is taken, or if
    the nodes of its pool are of another kind.
    """
    now, pool = ctx.now(), pool_of(new.name)
    if session.exec(select(Node.id).where(Node.name == new.name)).first() is not None:
        raise Problem(409, f"there is a node {new.name} already", code="node_exists")
    peer = session.exec(select(Node).where(Node.pool == pool)).first()
    if peer is not None:
        _check_equal(peer, new)
    code = CODE_PREFIX + secrets.token_urlsafe(32)
    node = Node(
        id=new_id("n", now, ctx.chance),
        name=new.name,
        pool=pool,
        region=new.region,
        zone=pool,
        instance_type=new.type.name,
        type=asdict(new.type),
        price_micros=new.price_micros,
        created_at=now,
        created_by=by,
        enrol_hash=_hash(code),
        enrol_until=now + CODE_LASTS,
    )
    session.add(node)
    record(session, "node_added", "node", node.id, f"node {node.name} may enrol", at=now, by=by)
    return node, code


def _check_equal(peer: Node, new: NewNode) -> None:
    """A gang is given any nodes of a pool, at one price."""
    theirs, ours = read_type(peer.type), new.type
    pairs = {
        "instance type": (peer.instance_type, new.type.name),
        "GPUs": (theirs.accelerator, ours.accelerator),
        "region": (peer.region, new.region),
        "fabric": (theirs.fabric, ours.fabric),
        "cost": (peer.price_micros, new.price_micros),
    }
    for what, (there, here) in pairs.items():
        if there != here:
            message = f"the pool {peer.pool} has another {what} ({peer.name}); choose another name"
            raise Problem(409, message, code="pool_differs")


def enrol(session: Session, ctx: Context, code: str, machine: Machine) -> tuple[Node, str]:
    """Exchange a code for a session. The same code works again until the session was used, since the answer
    may be lost. Problem 403 if the code is unknown, used or too old.
    """
    now = ctx.now()
    node = check_code(session, code, now)
    token = SESSION_PREFIX + secrets.token_urlsafe(32)
    node.session_hash = session_hash(token)
    note_machine(node, machine, now)
    if node.enrolled_at is None:
        record(session, "node_enrolled", "node", node.id, f"node {node.name} has enrolled", at=now)
    node.enrolled_at = node.enrolled_at or now
    session.add(node)
    session.flush()
    refresh(session, ctx)
    return node, token


def check_code(session: Session, code: str, now: datetime) -> Node:
    """The node that a code is good for. Problem 403 if the code is unknown, used or too old."""
    node = session.exec(select(Node).where(Node.enrol_hash == _hash(code)).with_for_update()).first()
    if node is None or node.enrol_until is None or now >= node.enrol_until:
        raise Problem(403, "the code is unknown, used, or older than an hour", code="bad_enrol_code")
    return node


def authenticate_node(session: Session, token: str) -> Node:
    """The node of a session. Problem 401 if there is none: it was removed, or never was."""
    statement = select(Node).where(Node.session_hash == session_hash(token)).with_for_update()
    node = session.exec(statement).first()
    if node is None:
        headers = {"WWW-Authenticate": "Bearer"}
        raise Problem(401, "this is no node of ours (any more)", code="bad_session", headers=headers)
    return node


def note_machine(node: Node, machine: Machine, now: datetime) -> None:
    """Keep what a machine says of itself; sizes that nobody declared are taken from it."""
    node.seen_at, node.boot_id = now, machine.boot_id
    node.agent_version, node.private_ip = machine.agent_version, machine.private_ip
    node.facts = {"cpus": machine.cpus, "memory_bytes": machine.memory_bytes, "gpus": machine.gpus}
    declared = read_type(node.type)
    node.type = asdict(
        replace(
            declared,
            vcpus=declared.vcpus or machine.cpus,
            memory_gib=declared.memory_gib or float(machine.memory_bytes // GIB),
        )
    )


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
