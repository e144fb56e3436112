"""The whole service over clouds in memory, as in the tests of the loops."""

from tests.loops.conftest import bench, clock, make_bench

__all__ = ["bench", "clock", "make_bench"]
