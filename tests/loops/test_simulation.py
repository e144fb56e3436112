"""Many random histories of trouble: whatever happens, every job ends, one attempt writes, nothing is left.

More of them: CORRAL_SIMULATION_SEEDS=100-400 (or one number: so many from the first seed).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.loops.simulation import Simulation

FIRST, COUNT = 1, 3


def _seeds() -> list[int]:
    text = os.environ.get("CORRAL_SIMULATION_SEEDS", str(COUNT))
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else list(range(FIRST, FIRST + int(text)))


@pytest.mark.parametrize("seed", _seeds())
def test_whatever_goes_wrong_every_job_ends_and_nothing_is_left(tmp_path: Path, seed: int) -> None:
    simulation = Simulation(tmp_path, seed)
    try:
        simulation.run()
    except BaseException as error:
        error.add_note("\n".join([f"seed {seed}:", *simulation.told]))
        raise
    finally:
        simulation.bench.database.close()
