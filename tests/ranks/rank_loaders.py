"""Loaders of ranks, around shards of numbered examples."""

from __future__ import annotations

import torch

from echobuf.torch import EchoLoader


def shard(rank, size, length):
    """Every n-th of so many examples."""
    return [{"id": torch.tensor(i)} for i in range(rank, length, size)]


def make(upstream, uneven, **more):
    arguments = {"batch_size": 4, "window": 16, "factor": 2, "seed": 5, **more}
    return EchoLoader(upstream, uneven=uneven, **arguments)


def ids(loader, most=None):
    """Those of each batch, of at most so many."""
    told = []
    for batch in loader:
        told.append(batch["id"].tolist())
        if len(told) == most:
            break
    return told
