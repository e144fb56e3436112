"""Checkpoints between the job's directory and the object store. See docs/agent-protocol.md."""
