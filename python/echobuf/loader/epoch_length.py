"""The number of batches in an epoch, and of the examples that upstream says it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echobuf import _core, hints
from echobuf.errors import describe
from echobuf.loader.source import as_data_loader, batch_sampler_of


@dataclass(frozen=True)
class EpochLength:
    """The arguments that the number of batches in an epoch follows from.

    Attributes:
        units: fresh examples (batches with `unit="batch"`) in an epoch.
        window: of the buffer.
        num: numerator of the factor, in lowest terms.
        den: its denominator.
        seed: of the buffer.
        batch_size: of the buffer; 1 with `unit="batch"`.
        drop_last: of the buffer.
    """

    units: int
    window: int
    num: int
    den: int
    seed: int
    batch_size: int
    drop_last: bool

    def count_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch, given by its number."""
        phase = _core.epoch_phase(self.num, self.den, self.seed, epoch)
        return self._count(phase)

    def count_most(self) -> int:
        """Return the number of batches in the longest epoch that there can be."""
        return self._count(self.den - 1)  # the draws grow with the phase

    def count_least(self) -> int:
        """Return the number of batches in the shortest epoch that there can be."""
        return self._count(0)

    def _count(self, phase: int) -> int:
        draws = _core.fixed_total_draws(
            self.window, self.num, self.den, self.units, phase
        )
        rest = 0 if self.drop_last else self.batch_size - 1
        return (draws + rest) // self.batch_size


_INEXACT = (
    ("grain", "MapDataset", "counts what its filters leave out"),
    ("gluonts", "TransformedDataset", "is that of one pass, and passes differ"),
)
"""Upstreams whose `len` is no number of examples: package, class, reason."""


def count_units(upstream: Any, *, batched: bool, whole: bool) -> int:
    """Return the number of fresh examples (batches, if `whole`) in one epoch.

    Raises:
        TypeError: it is not known.
    """
    loader = as_data_loader(upstream)
    if loader is None and batched and not whole:
        raise TypeError(
            "the number of examples in the batches of `upstream` is not known; give "
            "`length=`."
        )
    for package, kind, why in _INEXACT:
        if hints.is_of(upstream, package, kind):
            raise TypeError(f"the length of a {package} {kind} {why}; give `length=`.")
    try:
        if loader is not None:
            return _count_data_loader(loader, batched=batched, whole=whole)
        return len(upstream)
    except _UnknownError:
        raise
    except Exception as error:  # a `__len__` of upstream's may raise anything
        raise TypeError(
            f"`upstream` is a {type(upstream).__name__}, which does not say how many "
            f"items it yields ({describe(error)}); give `length=`."
        ) from None


class _UnknownError(TypeError):
    """A length that is not known, with the reason."""


def _count_data_loader(loader: Any, *, batched: bool, whole: bool) -> int:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset) and loader.num_workers > 0:
        raise _UnknownError(
            "an IterableDataset with worker processes yields what its workers make of "
            "it; give `length=`."
        )
    if whole or not batched:
        return len(loader)
    source, size, drop_last = _batching(loader)
    if source is None or size is None:
        kind = "makes no batches itself" if size is None else "has a batch_sampler"
        raise _UnknownError(
            f"a DataLoader that {kind} does not say how many examples its batches "
            "hold; give `length=`."
        )
    examples = len(source)
    return examples // size * size if drop_last else examples


def _batching(loader: Any) -> tuple[Any, int | None, bool]:
    """Return what says the number of examples, the batch size, and `drop_last`.

    The first is None for a batch sampler that may make batches of any size.
    """
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        size = loader.batch_size
        return None if size is None else loader.dataset, size, loader.drop_last
    sampler = batch_sampler_of(loader)
    if not _keeps_all(sampler):
        return None, None if sampler is None else 0, False
    return sampler.sampler, sampler.batch_size, sampler.drop_last


def first_batch_length(upstream: Any, made: int) -> int | None:
    """Return how many items the first batch of a DataLoader is made of, if known.

    Args:
        upstream: any.
        made: examples in that batch; where the number of items in an epoch is not
            known, a shorter batch may be the last one.
    """
    loader = as_data_loader(upstream)
    if loader is None:
        return None
    source, size, drop_last = _batching(loader)
    if drop_last or size is None or source is None:
        return size or None
    try:
        return min(size, len(source))
    except Exception:  # there is no `__len__`
        return min(size, made)


def _keeps_all(batch_sampler: Any) -> bool:
    """Return True for torch's BatchSampler, or that of torchdata."""
    kind = type(batch_sampler)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ == "BatchSampler" and package in ("torch", "torchdata")
