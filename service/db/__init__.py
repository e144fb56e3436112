"""The database: connections, claims, column types."""

from service.db.claims import Claimable, claim_due, held, look_again, release, release_all
from service.db.columns import choice, document
from service.db.database import Database, after_commit, wake_after_commit

__all__ = [
    "Claimable",
    "Database",
    "after_commit",
    "choice",
    "claim_due",
    "document",
    "held",
    "look_again",
    "release",
    "release_all",
    "wake_after_commit",
]
