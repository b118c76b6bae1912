"""What `analyze` has measured: numbers without judgement, which `Report` reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval.

    Attributes:
        mean: of the quantity, in the unit that the holder's field says.
        low: lower end of the 95 % confidence interval.
        high: upper end.
        count: measurements that it rests on.
        blocks: independent means that the interval rests on; 0 if that is not known.
    """

    mean: float
    low: float
    high: float
    count: int
    blocks: int = 0


@dataclass(frozen=True)
class LoaderParts:
    """Where a torch DataLoader spends its time, seconds of one process per example.

    Attributes:
        workers: its `num_workers`; 0 is the training process itself.
        fetch_s: `dataset[i]`, seconds per example.
        collate_s: its `collate_fn`, seconds per example.
        pin_s: copying into pinned memory, seconds per example; None if it does not.
    """

    workers: int
    fetch_s: float
    collate_s: float
    pin_s: float | None = None


@dataclass(frozen=True)
class Measurements:
    """What was measured; times are seconds per fresh example unless a name says else.

    Attributes:
        spec: pytree of `Field`s of one example, as `EchoLoader` would infer it.
        batch_size: examples that one call of the step takes.
        step_s: t_downstream: the step alone on a resident batch, per example.
        upstream_first_s: upstream alone, first pass, per example.
        upstream_second_s: the same examples a second time; None for a one-shot.
        together_s: both, overlapped, without echoing, per example.
        wait_s: mean time that the step waited for a batch meanwhile, seconds per batch.
        length: examples in an epoch, where known.
        window: window that predictions are made for, in examples.
        max_factor: largest factor that "auto" would use.
        loader: parts of a torch DataLoader, if upstream is one.
        device: where batches are served, as `EchoLoader` takes it.
        one_shot: upstream gives one epoch only.
        seconds: wall time that measuring took.
        notes: what the reader must know (no synchronisation, load, short input), one
            line each.
        item: examples that upstream yields at a time.
        startup_s: seconds from `iter(upstream)` to its first item, first pass; no part
            of the times per example.
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

    @property
    def upstream_s(self) -> Estimate:
        """t_upstream of a steady epoch: the second pass where there was one.

        Caches make no second pass slower than the first, and no upstream is slower
        alone than beside the step. Where measurements say so, the machine changed
        meanwhile, and the interval covers both.
        """
        found, first = self.upstream_second_s, self.upstream_first_s
        if found is None:
            found = first
        low = found.low
        for other in (first, self.together_s):
            if other.high < found.low:
                low = min(low, other.low)
        return replace(found, low=low)
