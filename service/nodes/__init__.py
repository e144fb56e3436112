"""Standing nodes: machines of ours, paid by the month, that serve attempts one after another."""
