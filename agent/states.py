"""The agent's life as data: from each state, where it may go and when."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The protocol knows those from `preparing` to `exited` by these words."""

    BOOT = "boot"
    HELLO = "hello"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    DRAINING = "draining"
    EXITED = "exited"
    END = "end"


TRANSITIONS: dict[State, dict[State, str]] = {
    State.BOOT: {
        State.HELLO: "configured, and the metadata service has said who this is",
        State.RUNNING: "the agent was restarted while its job lives on, or has ended meanwhile",
        State.PREPARING: "the agent was restarted before a job ran",
        State.EXITED: "the agent was restarted with an exit still to deliver",
        State.END: "nobody answered for half an hour",
    },
    State.HELLO: {
        State.PREPARING: "accepted",
        State.EXITED: "accepted after a reboot: a job was lost, or an exit is still to deliver",
        State.END: "refused, or nobody answered for half an hour",
    },
    State.PREPARING: {
        State.READY: "files are there and the setup went well",
        State.EXITED: "something failed, or it was told to stop",
        State.END: "another attempt writes now, or nobody answered for half an hour",
    },
    State.READY: {
        State.RUNNING: "told to start, and the newest checkpoint that verifies is in place",
        State.EXITED: "no checkpoint could be read, or it was told to stop",
        State.END: "another attempt writes now, or nobody answered for half an hour",
    },
    State.RUNNING: {
        State.DRAINING: "the job has ended, or is to end",
    },
    State.DRAINING: {
        State.EXITED: "nothing of the job is left and its last checkpoint is uploaded, or time is up",
        State.END: "another attempt writes now: there is nothing to report",
    },
    State.EXITED: {
        State.END: "the service has taken the exit, or an hour has passed",
    },
    State.END: {},
}


class IllegalTransitionError(Exception):
    """A programming error: the table does not know this step."""


def check(old: State, new: State) -> State:
    """`new`, if the table allows it."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransitionError(f"{old} -> {new}")
    return new
