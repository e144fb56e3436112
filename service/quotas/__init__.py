"""Quotas: what limits each account, how much of it is free, and what that means for a launch."""
