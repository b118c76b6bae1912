"""Values that `analyze` measures and `Report` reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from echobuf.analysis.ragged_lengths import RaggedLengths


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval.

    Attributes:
        mean: of the quantity, in the unit of the field that holds the estimate.
        low: lower end of the 95 % confidence interval.
        high: upper end of the 95 % confidence interval.
        count: number of timings.
        blocks: number of independent means behind the interval; 0 if not known.
    """

    mean: float
    low: float
    high: float
    count: int
    blocks: int = 0


@dataclass(frozen=True)
class LoaderParts:
    """Time that a torch DataLoader's parts take: one process's seconds per example.

    Attributes:
        workers: its `num_workers`; 0 is the training process itself.
        fetch_s: `dataset[i]`.
        collate_s: its `collate_fn`.
        pin_s: copying into pinned memory; None without pinning.
    """

    workers: int
    fetch_s: float
    collate_s: float
    pin_s: float | None = None


@dataclass(frozen=True)
class Measurements:
    """Timings of one analysis; seconds per fresh example unless a field says otherwise.

    Attributes:
        spec: pytree of `Field`s of one example, as `EchoLoader` would infer it.
        batch_size: examples that one call of the step takes.
        step_s: t_downstream: the step alone on a resident batch.
        upstream_first_s: upstream alone, first pass.
        upstream_second_s: the same examples a second time; None for a one-shot
            upstream.
        together_s: upstream and step overlapped, without echoing.
        wait_s: mean time that the step waited for a batch meanwhile, seconds per batch.
        length: examples in an epoch, where known.
        window: window that predictions are made for, in examples.
        max_factor: largest factor that "auto" would use.
        loader: parts of a torch DataLoader, if upstream is one.
        device: device of the batches, as for `EchoLoader`.
        one_shot: whether upstream gives one epoch only.
        seconds: wall time of the analysis.
        notes: remarks on the measurement, one line each.
        item: examples that upstream yields at a time.
        startup_s: seconds from `iter(upstream)` to its first item, in the first pass;
            not part of the times per example.
        ragged: lengths of the examples, where some of their leaves are ragged.
    """

    spec: Any
    batch_size: int
    step_s: Estimate
    upstream_first_s: Estimate
    upstream_second_s: Estimate | None
    together_s: Estimate
    wait_s: Estimate
    length: int | None
    window: int
    max_factor: int = 8
    device: str = "cpu"
    loader: LoaderParts | None = None
    one_shot: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    item: int = 1
    startup_s: float = 0.0
    ragged: RaggedLengths | None = None

    @property
    def upstream_s(self) -> Estimate:
        """Return t_upstream of a steady epoch: of the second pass if there was one.

        Caches make no second pass slower than the first, and no upstream is slower
        alone than beside the step. Where the timings contradict that, the machine's
        load changed meanwhile, and the interval is widened to cover both.
        """
        first, found = self.upstream_first_s, self.upstream_second_s
        found = found or first
        low = found.low
        for other in (first, self.together_s):
            if other.high < found.low:
                low = min(low, other.low)
        return replace(found, low=low)

    @property
    def storage_s(self) -> float:
        """Return the time of the storage: the extra time of the first pass.

        Zero if the intervals of both passes overlap, or if there was one pass only.
        """
        first, second = self.upstream_first_s, self.upstream_second_s
        if second is None or first.low <= second.high:
            return 0.0
        return first.mean - second.mean

    @property
    def most(self) -> int:
        """Return the largest factor that `max_factor` and the window allow."""
        return min(self.max_factor, self.window)
