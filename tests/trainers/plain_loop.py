"""The loader that trainers are given, and what a plain loop gets from it."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, DistributedSampler

from echobuf.torch import EchoLoader

EXAMPLES = 40
STEPS = 16  # in an epoch


def make_loader(
    rank: int = 0,
    ranks: int = 1,
    n: int = EXAMPLES,
    *,
    workers: int = 0,
    kind: Any = EchoLoader,
    **kwargs: Any,
) -> Any:
    """Around a DataLoader whose order depends on its sampler's epoch."""
    data = range(n)
    sampler = DistributedSampler(data, ranks, rank)
    upstream = DataLoader(data, batch_size=5, sampler=sampler, num_workers=workers)
    return kind(upstream, **{"window": 20, "factor": 2, **kwargs})


def expected(epochs: int, **kwargs: Any) -> list[list[int]]:
    """The batches of a plain loop."""
    loader, batches = make_loader(**kwargs), []
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        batches += [batch.tolist() for batch in loader]
    return batches
