"""`corral logs` and `corral events`."""
