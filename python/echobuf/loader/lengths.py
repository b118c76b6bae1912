"""Numbers of batches and examples: as upstream says them, and as they come."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from echobuf import _core, hints
from echobuf.errors import SpecError, describe
from echobuf.loader.source import (
    as_data_loader,
    batch_sampler_of,
    has_own_collate,
    loader_batch_size,
)
from echobuf.spec import shape_of
from echobuf.trees import flatten, flatten_with_paths


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


def count_units(upstream: Any, *, stacked: bool) -> int:
    """Return the number of records that one epoch puts.

    Args:
        upstream: of examples or of batches.
        stacked: its items hold examples stacked on axis 0, each of them a record; else
            each item is one.

    Raises:
        TypeError: it is not known.
    """
    loader = as_data_loader(upstream)
    if loader is None and stacked:
        raise TypeError(
            "the number of examples in the batches of `upstream` is not known; give "
            "`length=`."
        )
    for package, kind, why in _INEXACT:
        if hints.is_of(upstream, package, kind):
            raise TypeError(f"the length of a {package} {kind} {why}; give `length=`.")
    try:
        if loader is not None:
            return _count_data_loader(loader, stacked=stacked)
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


def _count_data_loader(loader: Any, *, stacked: bool) -> int:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset) and loader.num_workers > 0:
        raise _UnknownError(
            "an IterableDataset with worker processes yields what its workers make of "
            "it; give `length=`."
        )
    if not stacked:
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


# ---- the first batch, against what its DataLoader says


class FirstBatch:
    """The number of examples in the first batch, as said and as made.

    A `collate_fn` may make another number of examples than it is given.

    Args:
        upstream: of the loader.
        stacked: its items hold examples stacked on axis 0, which are taken apart.
        length: of upstream, as given.
        is_size_given: the loader was told the size of its own batches.

    Attributes:
        is_awaited: the number of batches in an epoch is known with the first batch.
        before: size of the loader's batches where a state was taken, from which
            upstream goes on, so that its first batch may be the last one of an epoch;
            None at an epoch's start.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        stacked: bool,
        length: int | None,
        *,
        is_size_given: bool,
    ) -> None:
        self._upstream = upstream
        self._length = length
        self._is_size_given = is_size_given
        self._made: tuple[int, int] | None = None
        self.before: int | None = None
        loader, is_own = as_data_loader(upstream), has_own_collate(upstream)
        # Torch's own makes one example of each index, where it is what stacks them.
        self._is_free = is_own or loader is None or loader.batch_sampler is None
        is_known = length is not None and is_size_given
        self.is_awaited = stacked and not is_known and is_own

    def note(self, made: int) -> int | None:
        """Note the number of examples in it; warn if the DataLoader says another.

        Returns:
            The size of its batches, if that is not the DataLoader's batch size.
        """
        self.is_awaited = False
        said = first_batch_length(self._upstream, made)
        # A short one of torch's own collate is the last: upstream goes on from a state.
        if said is None or made == said or (made < said and not self._is_free):
            return None
        if self.before is not None and made < self.before:
            made = self.before
            if made == said or self._is_size_given:
                return None
        self._made = said, made
        # A few less: some were left out of a batch that is as large as it says.
        is_size = made > said or (made > 0 and said % made == 0)
        is_learnt = is_size and not self._is_size_given
        if self._length is None or is_learnt:
            size = f" `batch_size` is now {made}, as theirs." if is_learnt else ""
            warnings.warn(
                f"{self._difference()}.{size} `len(loader)` is not known: give "
                "`length=`, the number of examples that come in an epoch, and "
                "`batch_size=`. If axis 0 is not the batch axis, move it there in the "
                "`collate_fn`.",
                stacklevel=2,
            )
        return made if is_learnt else None

    def refuse_lists(self, batch: Any) -> None:
        """Refuse a first batch with lists of examples, which `collate_fn` left so.

        A list as long as the DataLoader's batches may be the leaves of one where the
        loader was told the size of its own.

        Raises:
            SpecError: names the list.
        """
        if not has_own_collate(self._upstream):
            return
        is_list = as_data_loader(self._upstream).collate_fn in (list, tuple)
        if self._is_size_given and not is_list:
            return
        size = len(batch) if is_list else loader_batch_size(self._upstream)

        def is_one(node: Any) -> bool:
            return _is_list_of_examples(node, size, is_certain=is_list)

        paths, nodes, _ = flatten_with_paths(batch, is_leaf=is_one)
        for path, node in zip(paths, nodes, strict=True):
            if is_one(node):
                raise SpecError(
                    f"`batch{path}` is a {type(node).__name__} of {len(node)} "
                    "examples; a batch is a tree of arrays, with examples stacked on "
                    "axis 0. Leave the DataLoader's `collate_fn` out, which then "
                    "stacks them, or say batch_size=None there, and `batch_size=` "
                    "here. If their lengths vary, give `payload_bytes=`."
                    f"{'' if is_list else _LEAVES}"
                )

    def check(self, see: Callable[[], None]) -> None:
        """Raise `TypeError` if the number of batches does not follow from what is said.

        Args:
            see: makes the first batch, if it can.
        """
        if self.is_awaited:
            see()
        if self.is_awaited:
            raise TypeError(
                "a `collate_fn` may make another number of examples than it is given, "
                "which is known with the first batch; give `length=` and `batch_size=`."
            )
        if self._made is not None and self._length is None:
            raise TypeError(f"{self._difference()}; give `length=`.")

    def _difference(self) -> str:
        assert self._made is not None
        said, made = self._made
        return (
            f"the first batch of `upstream`, a {type(self._upstream).__name__}, has "
            f"{made} examples on axis 0, and is made of {said} items of the dataset"
        )


def warn_of_count(said: int, made: int, *, is_given: bool, what: str) -> None:
    """Warn that an epoch had another number of fresh examples than was said.

    Args:
        said: the number by upstream, or as given.
        made: the number that has come.
        is_given: it was given.
        what: the word for them.
    """
    name = "`length`" if is_given else "`len(upstream)`"
    warnings.warn(
        f"by {name} an epoch has {said} fresh {what}, but one has had {made}: "
        f"`len(loader)` is wrong. Give `length={made}`, if all have as many.",
        stacklevel=2,
    )


_LEAVES = (
    " (If these are the leaves of a batch, give `batch_size=`, the number of examples "
    "in one.)"
)


def _is_list_of_examples(node: Any, size: int | None, *, is_certain: bool) -> bool:
    """Return True for a list or tuple of as many equal trees as a batch has examples.

    Where these may be the leaves of a batch, as long as the batch, it is not certain.
    """
    if type(node) not in (list, tuple) or not node or len(node) != size:
        return False
    if is_certain:
        return True
    kinds = []
    for each in node:
        leaves, treespec = flatten(each)
        kinds.append((treespec, [shape_of(leaf) for leaf in leaves]))
    shapes = kinds[0][1]
    is_alike = all(kind == kinds[0] for kind in kinds)
    return is_alike and bool(shapes) and shapes[0][:1] != (size,)
