"""A small training job that survives losing its machine. Standard library only.

It fits a line through noisy points by stochastic gradient descent with momentum. A checkpoint holds all
that the rest of the run depends on: weights, momentum, the step (and so the learning rate), the generator's
state and the place in the shuffled data. So a run that was interrupted ends with the same checksum as one
that was not.

On SIGTERM it writes a checkpoint at once, uses LAST_SECONDS of what time it was given, and writes another.

Environment: STEPS, CHECKPOINT_EVERY (steps), STEP_SECONDS (real seconds of pretended work a step),
LAST_SECONDS (real), and what the agent sets: CORRAL_CHECKPOINT_DIR, CORRAL_RESTORED_CHECKPOINT.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

FEATURES = 8
SAMPLES = 256
BATCH = 8
TERMINATED = 128 + signal.SIGTERM


def data() -> list[tuple[list[float], float]]:
    """The same noisy points on every machine."""
    chance = random.Random(20)  # noqa: S311 (made-up data, not a secret)
    truth = [chance.uniform(-1, 1) for _ in range(FEATURES)]
    rows = [[chance.gauss(0, 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    return [(row, dot(row, truth) + chance.gauss(0, 0.1)) for row in rows]


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


class Training:
    """Model, optimiser, generator and data order: all that one step depends on."""

    def __init__(self) -> None:
        self.data = data()
        self.step = 0
        self.weights = [0.0] * FEATURES
        self.momentum = [0.0] * FEATURES
        self.chance = random.Random(7)  # noqa: S311
        self.order: list[int] = []

    def advance(self) -> float:
        """One step; the loss on its batch."""
        if len(self.order) < BATCH:
            self.order = list(range(SAMPLES))
            self.chance.shuffle(self.order)
        batch = [self.data[self.order.pop()] for _ in range(BATCH)]
        rate = 0.05 / (1 + self.step / 200)
        errors = [dot(row, self.weights) - target for row, target in batch]
        for index in range(FEATURES):
            gradient = sum(error * row[index] for error, (row, _) in zip(errors, batch, strict=True)) / BATCH
            self.momentum[index] = 0.9 * self.momentum[index] + gradient
            self.weights[index] -= rate * self.momentum[index]
        self.step += 1
        return sum(error * error for error in errors) / BATCH

    def state(self) -> str:
        """Everything as JSON; floats keep every bit."""
        version, internal, gauss = self.chance.getstate()
        return json.dumps(
            {
                "step": self.step,
                "weights": self.weights,
                "momentum": self.momentum,
                "order": self.order,
                "generator": [version, list(internal), gauss],
            }
        )

    def load(self, text: str) -> None:
        """The opposite of `state`."""
        state = json.loads(text)
        self.step, self.order = state["step"], state["order"]
        self.weights, self.momentum = state["weights"], state["momentum"]
        version, internal, gauss = state["generator"]
        self.chance.setstate((version, tuple(internal), gauss))

    def checksum(self) -> str:
        return hashlib.sha256(self.state().encode()).hexdigest()[:16]


def save(training: Training, directory: Path) -> None:
    """Write beside, then rename: a checkpoint under its own name is whole."""
    name = f"step-{training.step:06d}"
    if (directory / name).exists():
        return
    part = directory / f".{name}.tmp"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    (part / "state.json").write_text(training.state())
    part.rename(directory / name)
    print(f"checkpoint {name}", flush=True)


def main() -> int:
    steps = int(os.environ.get("STEPS", "240"))
    every = int(os.environ.get("CHECKPOINT_EVERY", "20"))
    pause = float(os.environ.get("STEP_SECONDS", "0"))
    last_seconds = float(os.environ.get("LAST_SECONDS", "0"))
    kept = os.environ.get("CORRAL_CHECKPOINT_DIR")
    restored = os.environ.get("CORRAL_RESTORED_CHECKPOINT")
    training = Training()
    if restored:
        training.load((Path(restored) / "state.json").read_text())
        print(f"resumed at step {training.step}", flush=True)
    told: list[float] = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: told.append(time.monotonic()))
    heard = False
    while training.step < steps:
        if told and not heard:
            heard = True
            print(f"told to stop at step {training.step}", flush=True)
            if kept:
                save(training, Path(kept))
        if told and time.monotonic() - told[0] >= last_seconds:
            break
        loss = training.advance()
        if training.step % every == 0:
            print(f"step {training.step} loss {loss:.4f}", flush=True)
            if kept and training.step < steps:
                save(training, Path(kept))
        time.sleep(pause)
    if training.step < steps:
        if kept:
            save(training, Path(kept))
        print(f"stopped at step {training.step}", flush=True)
        return TERMINATED
    print(f"finished step {training.step} checksum {training.checksum()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
