"""Random numbers in a worker process: each has its own."""

from __future__ import annotations

import random
import sys

import numpy as np


def seed_all(seed: int, number: int, start: int) -> None:
    """Seeds `random`, NumPy's and torch's, as a DataLoader does.

    Args:
        seed: of the loader.
        number: of the worker.
        start: how many processes were started before: one that takes a dead one's
            place does not repeat its numbers.
    """
    words = np.random.SeedSequence([seed, number, start]).generate_state(8)
    random.seed(words[:4].tobytes())
    np.random.seed(words[4:6])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(int(words[6:].view(np.uint64)[0] >> 1))
