"""How long upstream is, where that can be known."""

from __future__ import annotations

from typing import Any

from echobuf import hints
from echobuf.loader.source import as_data_loader


def count_units(upstream: Any, *, batched: bool, whole: bool) -> int:
    """How many fresh examples (batches, if `whole`) one epoch of upstream yields.

    Raises:
        TypeError: it is not known.
    """
    loader = as_data_loader(upstream)
    if loader is not None:
        return _count_data_loader(loader, batched=batched, whole=whole)
    if batched and not whole:
        raise TypeError(
            "the number of examples in the batches of `upstream` is not known; give "
            "`length=`."
        )
    if hints.is_of(upstream, "grain", "MapDataset"):
        raise TypeError(
            "the length of a grain MapDataset counts what its filters leave out; give "
            "`length=`: `len(dataset)`, if none leaves anything out."
        )
    try:
        return len(upstream)
    except TypeError as error:
        raise TypeError(
            f"`upstream` is a {type(upstream).__name__}, which does not say how many "
            f"items it yields ({error}); give `length=`."
        ) from None


def _count_data_loader(loader: Any, *, batched: bool, whole: bool) -> int:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset) and loader.num_workers > 0:
        raise TypeError(
            "an IterableDataset with worker processes yields what its workers make of "
            "it; give `length=`."
        )
    if whole or not batched:
        return len(loader)
    if isinstance(loader.dataset, IterableDataset):
        examples = len(loader.dataset)  # type: ignore[arg-type]
        size, drop_last = loader.batch_size, loader.drop_last
    elif _keeps_all(loader.batch_sampler):
        sampler = loader.batch_sampler
        examples = len(sampler.sampler)
        size, drop_last = sampler.batch_size, sampler.drop_last
    else:
        raise TypeError(
            "a DataLoader with a batch_sampler of its own does not say how many "
            "examples its batches hold; give `length=`."
        )
    return examples // size * size if drop_last else examples


def _keeps_all(batch_sampler: Any) -> bool:
    """Whether it is torch's, or the same of torchdata's StatefulDataLoader."""
    kind = type(batch_sampler)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ == "BatchSampler" and package in ("torch", "torchdata")
