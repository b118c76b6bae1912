"""Random numbers, as they were: what is measured leaves no trace in them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from echobuf.loader.source import as_data_loader


class RandomState:
    """The state of the generators that upstream may draw from, to go back to.

    Those of Python, NumPy and torch, and the generators of a DataLoader and its
    samplers. With it a second pass meets the examples of the first one in their order.

    Args:
        upstream: whose generators are meant.
    """

    def __init__(self, upstream: Any) -> None:
        self._restores = list(_taken(upstream))

    def restore(self) -> None:
        """All are as they were when this was made."""
        for restore in self._restores:
            restore()


def _taken(upstream: Any) -> Iterator[Callable[[], None]]:
    python = random.getstate()
    yield lambda: random.setstate(python)
    numpy = np.random.get_state()
    yield lambda: np.random.set_state(numpy)
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return
    host = torch.get_rng_state()
    yield lambda: torch.set_rng_state(host)
    if torch.cuda.is_initialized():
        devices = torch.cuda.get_rng_state_all()
        yield lambda: torch.cuda.set_rng_state_all(devices)
    for generator in _generators(upstream):
        yield _of_generator(generator)


def _generators(upstream: Any) -> Iterator[Any]:
    loader = as_data_loader(upstream)
    if loader is None:
        return
    seen: list[Any] = []
    batch_sampler = loader.batch_sampler
    for holder in (
        loader,
        loader.sampler,
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
    ):
        generator = getattr(holder, "generator", None)
        if hasattr(generator, "get_state") and all(generator is not x for x in seen):
            seen.append(generator)
            yield generator


def _of_generator(generator: Any) -> Callable[[], None]:
    state = generator.get_state()
    return lambda: generator.set_state(state)
