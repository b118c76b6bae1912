"""Random numbers in a worker process: each has its own."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np

from echobuf.workers.late_import import when_imported


def seed_all(seed: int, number: int, start: int) -> int:
    """Seed `random`, NumPy's and torch's, as a DataLoader does.

    torch is seeded when it is imported: without that each worker would draw what a new
    torch draws.

    Args:
        seed: of the loader.
        number: of the worker.
        start: how many processes were started before: one that takes a dead one's
            place does not repeat its numbers.

    Returns:
        The seed of torch.
    """
    words = np.random.SeedSequence([seed, number, start]).generate_state(8)
    random.seed(words[:4].tobytes())
    np.random.seed(words[4:6])
    of_torch = int(words[6:].view(np.uint64)[0] >> 1)

    def seed_torch(torch: ModuleType) -> None:
        torch.manual_seed(of_torch)

    when_imported("torch", seed_torch)
    return of_torch
