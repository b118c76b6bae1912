"""Predictions: of an echoing factor; of other remedies, workers, caches, storage."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from echobuf import _core
from echobuf._engine.backends import make_core_options
from echobuf._engine.output import make_output_spec
from echobuf.analysis import formulas
from echobuf.analysis.measurements import Measurements
from echobuf.analysis.ragged_lengths import RaggedLengths
from echobuf.analysis.simulation import Pipeline, simulate
from echobuf.arguments import check_factor
from echobuf.capacity import check_size, own_bytes
from echobuf.options import check_options
from echobuf.spec import make_spec

FACTORS = range(1, 17)
"""Factors that predictions are made for."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the data set that a cache may hold, to predict for."""

_FASTER = (2.0, 10.0)


@dataclass(frozen=True)
class Prediction:
    """Predicted epoch with a factor, with starting, filling and draining the window.

    Attributes:
        factor: the echoing factor, a number or "auto".
        effective_factor: examples served over fresh ones in this epoch.
        fresh_s: seconds per fresh example once the window is full,
            max(t_upstream, e * t_downstream).
        epoch_s: seconds for the epoch: every fresh example once from upstream.
        same_steps_s: seconds for as many steps as the epoch has without echoing, which
            is `epoch_s` / `effective_factor`.
        speedup: of `same_steps_s`, over an epoch without echoing in which upstream and
            step overlap perfectly; near min(e, R) if the epoch has many windows.
        wait_share: share of the epoch in which the step waits; from 0 to 1.
    """

    factor: float | str
    effective_factor: float
    fresh_s: float
    epoch_s: float
    same_steps_s: float
    speedup: float
    wait_share: float


def predict(
    pipeline: Pipeline, factor: float | Fraction | str, count: int
) -> Prediction:
    """Predict an epoch of `count` fresh examples.

    Args:
        pipeline: upstream, buffer and step, with their mean times.
        factor: as for `EchoBuffer`, and valid for the pipeline's window.
        count: fresh examples, at least one.
    """
    exact = check_factor(factor)
    epoch = simulate(pipeline, exact, count)
    echoes = epoch.draws / count
    overlapped_s = pipeline.startup_s + count * formulas.fresh_s(
        pipeline.upstream_s, pipeline.step_s, 1
    )
    same_steps_s = epoch.seconds / echoes
    busy_s = epoch.draws * pipeline.step_s
    steady = echoes if exact is None else float(exact)
    return Prediction(
        factor="auto" if exact is None else float(exact),
        effective_factor=echoes,
        fresh_s=formulas.fresh_s(pipeline.upstream_s, pipeline.step_s, steady),
        epoch_s=epoch.seconds,
        same_steps_s=same_steps_s,
        speedup=overlapped_s / same_steps_s if same_steps_s > 0 else 1.0,
        wait_share=max(0.0, 1 - busy_s / epoch.seconds) if epoch.seconds > 0 else 0.0,
    )


@dataclass(frozen=True)
class Memory:
    """Bytes that a buffer holds; the caller's batches are not included.

    Attributes:
        bytes_device: on the accelerator; 0 on the CPU.
        bytes_host: of host memory; on an accelerator the pinned staging area.
    """

    bytes_device: int
    bytes_host: int


def buffer_memory(
    spec: Any,
    *,
    batch_size: int,
    window: int,
    factor: float | Fraction | str,
    max_factor: int = 8,
    device: str = "cpu",
    ragged: RaggedLengths | None = None,
) -> Memory:
    """Compute the memory of an `EchoBuffer` with these arguments; allocates nothing.

    With lengths of examples, `payload_bytes` is what they say for the window.

    Raises:
        OptionError: an argument is out of range.
        SpecError: the spec is empty or has leaves that cannot be stored.
        CapacityError: the buffer is larger than any machine's memory.
    """
    more = {}
    if ragged is not None:
        more = {
            **ragged.arguments,
            "ragged": "padded" if ragged.is_padded else None,
            "payload_bytes": ragged.payload_bytes(window, factor),
        }
        batch_size = ragged.batch_size or 1
    options = check_options(
        batch_size=None if more.get("max_rows") else batch_size,
        window=window,
        factor=factor,
        max_factor=max_factor,
        device=device,
        **more,
    )
    read = make_spec(spec)
    check_size(read, options)
    core_options = make_core_options(
        read, make_output_spec(read, None, whole=False), options
    )
    if options.device == "cpu":
        return Memory(0, own_bytes(core_options.needs()))
    return Memory(
        own_bytes(_core.DeviceBuffer.needs(core_options)),
        _core.DeviceBuffer.staging_bytes(core_options),
    )


@dataclass(frozen=True)
class Remedy:
    """A change upstream, with the time per fresh example that follows.

    Attributes:
        name: the change, in a few words.
        upstream_s: t_upstream, seconds per fresh example, after the change.
        speedup: of an epoch without echoing, over the same epoch before the change.
        note: the assumption behind it.
    """

    name: str
    upstream_s: float
    speedup: float
    note: str


def storage_s(measured: Measurements) -> float:
    """Return the first pass's extra seconds per example: the time of the storage.

    Zero if the intervals of both passes overlap, or if there was one pass only.
    """
    first, second = measured.upstream_first_s, measured.upstream_second_s
    if second is None or first.low <= second.high:
        return 0.0
    return first.mean - second.mean


def find_remedies(measured: Measurements) -> tuple[Remedy, ...]:
    """List the remedies that apply to this upstream."""
    return (*_workers(measured), *_caches(measured), *_storage(measured))


def parallel_s(measured: Measurements) -> float:
    """Return one process's seconds per example that workers could share."""
    upstream_s = measured.upstream_s.mean
    parts = measured.loader
    if parts is None:
        return upstream_s
    return min(parts.fetch_s + parts.collate_s, upstream_s * max(1, parts.workers))


def serial_s(measured: Measurements) -> float:
    """Return seconds per example that remain however many workers there are."""
    workers = 1 if measured.loader is None else max(1, measured.loader.workers)
    return max(0.0, measured.upstream_s.mean - parallel_s(measured) / workers)


def _workers(measured: Measurements) -> list[Remedy]:
    serial, parallel = serial_s(measured), parallel_s(measured)
    now = 1 if measured.loader is None else max(1, measured.loader.workers)
    numbers = {2 * now, 4 * now}
    enough = formulas.workers_to_keep_up(serial, parallel, measured.step_s.mean)
    if enough is not None and now < enough:
        numbers.add(enough)
    before = measured.upstream_s.mean
    return [
        _remedy(
            measured,
            f"{number:,} workers" + (" (R = 1)" if number == enough else ""),
            before,
            formulas.with_workers_s(serial, parallel, number),
            "on free cores",
        )
        for number in sorted(numbers)
    ]


def _caches(measured: Measurements) -> list[Remedy]:
    storage = storage_s(measured)
    if storage == 0:
        return []
    before = measured.upstream_first_s.mean
    kinds = (
        ("never evicts", formulas.hits_never_evicted),
        ("LRU", formulas.hits_lru),
    )
    return [
        _remedy(
            measured,
            f"cache of {share:.0%}, {kind}",
            before,
            formulas.cached_s(before - storage, storage, hits(share)),
            f"{hits(share):.0%} hits",
        )
        for share in SHARES
        for kind, hits in kinds
        if share < 1 or kind != "LRU"
    ]


def _storage(measured: Measurements) -> list[Remedy]:
    storage = storage_s(measured)
    if storage == 0:
        return []
    before = measured.upstream_first_s.mean
    return [
        _remedy(
            measured,
            f"storage {times:g} times as fast",
            before,
            formulas.faster_storage_s(before - storage, storage, times),
            "first pass",
        )
        for times in _FASTER
    ]


def _remedy(
    measured: Measurements, name: str, before: float, after: float, note: str
) -> Remedy:
    old, new = (
        formulas.fresh_s(upstream, measured.step_s.mean, 1)
        for upstream in (before, after)
    )
    return Remedy(name, after, old / new if new > 0 else 1.0, note)
