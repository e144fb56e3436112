"""What the job sees of the world: its environment, its shell. Nothing of the agent's own is in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent.orders import StartOrder
from agent.paths import Paths
from agent.protocol import Assignment

_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
# A container ends with its first process, whatever else still writes a checkpoint in it. So the shell stays
# until the command it waits for has ended, and does not go on to the next line of the script.
_PREAMBLE = "trap 'exit 143' TERM\n"


def base(paths: Paths, inherited: Mapping[str, str]) -> dict[str, str]:
    """What any process needs, for a job without a container."""
    found = {name: inherited[name] for name in _INHERITED if name in inherited}
    found.setdefault("PATH", os.defpath)
    found["HOME"] = str(paths.job / "home")
    found["TMPDIR"] = str(paths.job / "tmp")
    found["USER"] = found["LOGNAME"] = "root" if os.geteuid() == 0 else "corral"
    found["SHELL"] = shell()[0]
    return found


def given(assignment: Assignment, start: StartOrder | None, checkpoint: str | None) -> dict[str, str]:
    """The job's own variables and secrets, and the protocol's, which win. Before `start` (in the setup)
    there are no addresses yet. `checkpoint`: the checkpoint directory as the job sees it.
    """
    rank, nodes = str(assignment.rank), str(assignment.num_nodes)
    gpus = str(assignment.gpus_per_node)
    found = {
        **assignment.env,
        **assignment.secrets,
        "CORRAL_JOB_ID": assignment.job_id,
        "CORRAL_ATTEMPT": assignment.attempt_id,
        "CORRAL_NODE_RANK": rank,
        "CORRAL_NUM_NODES": nodes,
        "CORRAL_GPUS_PER_NODE": gpus,
        "NODE_RANK": rank,
        "NUM_NODES": nodes,
        "GPUS_PER_NODE": gpus,
    }
    if checkpoint is not None:
        found["CORRAL_CHECKPOINT_DIR"] = checkpoint
    if start is not None and start.node_ips:
        addresses = "\n".join(start.node_ips)
        found |= {"CORRAL_NODE_IPS": addresses, "NODE_IPS": addresses, "MASTER_ADDR": start.node_ips[0]}
    if start is not None and start.master_port is not None:
        found["MASTER_PORT"] = str(start.master_port)
    return found


def shell() -> list[str]:
    """bash where there is one, else sh; a failing command ends the script."""
    return ["/bin/bash" if Path("/bin/bash").exists() else "/bin/sh", "-e"]


def script_in_container(text: str) -> str:
    """A script of the job's, so that its shell outlives the command that handles SIGTERM."""
    return _PREAMBLE + text
