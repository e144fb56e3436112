"""Capacity that was paid for ahead: what there is, how much of it is free, and when it must be left."""
