"""The agent: runs one job on one instance. It opens every connection itself and listens nowhere.

It stands alone: of this project it imports only `clock`. `docs/agent-protocol.md` is its contract.
"""

__version__ = "0.1.0"
