"""A standing node: a machine that serves attempts one after another and is never ended by us."""
