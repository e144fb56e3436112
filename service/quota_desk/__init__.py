"""The quota desk: requests for more of an account's quotas, from the wish to the limit that moved."""
