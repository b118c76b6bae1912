"""Loaders of ranks, around shards of numbered examples."""

from __future__ import annotations

import torch

from echobuf.torch import EchoLoader


def shard(rank, size, length):
    """Return every n-th of `length` examples."""
    return [{"id": torch.tensor(i)} for i in range(rank, length, size)]


def make(upstream, uneven, **more):
    arguments = {"batch_size": 4, "window": 16, "factor": 2, "seed": 5, **more}
    return EchoLoader(upstream, uneven=uneven, **arguments)


def ids(loader, most=None):
    """Return the ids of each batch, of at most `most` batches."""
    batches = []
    for batch in loader:
        batches.append(batch["id"].tolist())
        if len(batches) == most:
            break
    return batches
