"""A loader's arguments, checked, and the number of batches that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from echobuf import _core, hints, state
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.errors import OptionError, message, show
from echobuf.loader import source
from echobuf.loader.source import as_data_loader
from echobuf.options import Options, check_factor, check_int, check_options

_DEFAULT_BATCHES = 32  # in a window, where nothing else is said


class Plan:
    """The arguments of a loader, checked.

    Args:
        upstream: an iterable of examples or of batches.
        batched: as for `EchoLoader`; None: `default`.
        default: True if `upstream` yields batches by its kind.
        length: as for `EchoLoader`.
        arguments: those of `EchoBuffer`; `batch_size` may still be unknown, and
            `window`, which then follows from it.
        make: what makes a buffer of them.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        batched: Any,
        default: bool,
        length: Any,
        arguments: dict[str, Any],
        make: Callable[..., EchoBuffer] = EchoBuffer,
    ) -> None:
        self._upstream = upstream
        self._make = make
        self._arguments = arguments
        self._length = None if length is None else check_int("length", length, 0, None)
        unit = arguments["unit"]
        self.batched = _check_batched(batched, unit, default)
        if arguments["batch_size"] is None and unit == "example" and self.batched:
            arguments["batch_size"] = source.loader_batch_size(upstream)
        if arguments["batch_size"] is not None or unit == "batch":
            self._settle_window()
        self.options: Options = self._check()
        self._buffer: EchoBuffer | None = None

    def _check(self) -> Options:
        arguments = dict(self._arguments)
        unknown = arguments["batch_size"] is None
        if unknown and not self.batched and arguments["unit"] == "example":
            raise OptionError(
                "`batch_size` is None; it must be an int >= 1, the number of examples "
                "in a batch. If `upstream` yields batches, say batched=True instead."
            )
        if unknown and self.batched:
            # Known with the first batch; until then any that is allowed stands in.
            arguments["batch_size"] = None if arguments["unit"] == "batch" else 1
        if arguments["window"] is None:
            arguments["window"] = _default_window(1, arguments["factor"])
        return check_options(**arguments)

    def _settle_window(self) -> None:
        """Choose the window, where it was left out and the batch size is known."""
        arguments = self._arguments
        if arguments["window"] is None:
            size = 1 if arguments["unit"] == "batch" else arguments["batch_size"]
            arguments["window"] = _default_window(size, arguments["factor"])

    def make_buffer(self, first: Any) -> EchoBuffer:
        """Return the buffer for items like the first one of upstream."""
        spec = self._infer(first)
        self._buffer = self._make(spec, **self._arguments)
        self.options = engine_of(self._buffer).options
        return self._buffer

    def _infer(self, first: Any) -> Any:
        if self.options.ragged:
            return source.infer_whole(first, source.loader_batch_size(self._upstream))
        if not self.batched:
            source.check_example(first)
            return first
        spec, length = source.infer_example(first)
        if self._arguments["batch_size"] is None:
            self._arguments["batch_size"] = length
            self._settle_window()
        return spec

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `EchoBuffer`, as given."""
        return self._arguments

    @property
    def length(self) -> int | None:
        """Return the length of upstream, as given."""
        return self._length

    @property
    def batch_size(self) -> int | None:
        """Examples in a batch; None until the first batch says it."""
        size = self._arguments["batch_size"]
        if size is None and self.options.ragged:
            return source.loader_batch_size(self._upstream)
        return None if size is None else self.options.batch_size

    @property
    def window(self) -> int | None:
        """The window; None until the first batch says it."""
        return None if self._arguments["window"] is None else self.options.window

    def epoch_length(self) -> EpochLength:
        """Return what the number of batches in each epoch follows from.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
        """
        options = self.options
        if options.ratio is None:
            raise TypeError(
                "with factor='auto' the number of batches is known only when they are "
                "served; `max_batches()` is an upper bound. Or give a number as "
                "`factor`."
            )
        return self._length_at(options.ratio)

    def fresh_length(self) -> EpochLength:
        """Return the same without echoing: each fresh example is served once.

        Raises:
            TypeError: upstream's length is not known.
        """
        return self._length_at((1, 1))

    def _length_at(self, ratio: tuple[int, int]) -> EpochLength:
        options = self.options
        return EpochLength(
            self._count_units(),
            options.window,
            *ratio,
            options.seed,
            options.batch_size,
            options.drop_last,
        )

    def max_batches(self) -> int:
        """Return the most batches that an epoch can have.

        Raises:
            TypeError: upstream's length is not known.
        """
        options = self.options
        if options.ratio is not None:
            return self.epoch_length().count_most()
        draws = self._count_units() * options.max_factor
        rest = 0 if options.drop_last else options.batch_size - 1
        return (draws + rest) // options.batch_size

    def _count_units(self) -> int:
        """Count the fresh examples (batches with `unit="batch"`) of an epoch."""
        whole = self.options.ragged
        if not whole and self._arguments["batch_size"] is None:
            raise TypeError("`batch_size` is known with the first batch; give it.")
        if self._length is not None:
            return self._length
        return count_units(self._upstream, batched=self.batched, whole=whole)

    def sealed(self) -> state.State:
        """Return the arguments as they are kept in a state."""
        if self._buffer is not None:
            return engine_of(self._buffer).arguments
        arguments = state.arguments_of(self.options, None, None, None)
        if self._arguments["batch_size"] is None and not self.options.ragged:
            arguments["batch_size"] = None
        if self._arguments["window"] is None:
            arguments["window"] = None
        return arguments


def _check_batched(batched: Any, unit: Any, default: bool) -> bool:
    if batched is None:
        return unit == "batch" or default
    if batched is not True and batched is not False:
        raise OptionError(f"`batched` is {show(batched)}; it must be True or False.")
    if unit == "batch" and not batched:
        raise OptionError(
            "`batched` is False; with unit='batch' upstream yields the batches "
            "that are echoed, so it must be True or left out."
        )
    return batched


def _default_window(batch_size: Any, factor: Any) -> int:
    """Return 32 batches, or the next multiple of ceil(factor) batches.

    With such a multiple no batch of the steady state holds an example twice.
    """
    ratio = check_factor(factor)
    step = 1 if ratio is None else math.ceil(ratio)
    batches = -(-_DEFAULT_BATCHES // step) * step
    return check_int("batch_size", batch_size, 1, None) * batches


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


def count_units(upstream: Any, *, batched: bool, whole: bool) -> int:
    """Return the number of fresh examples (batches, if `whole`) in one epoch.

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
            f"items it yields ({message(error)}); give `length=`."
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
    """Return True for torch's BatchSampler, or that of torchdata."""
    kind = type(batch_sampler)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ == "BatchSampler" and package in ("torch", "torchdata")
