"""Predictions of an echoing factor, the worth of its echoes, and other remedies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from echobuf import _core
from echobuf._engine.backends import make_core_options
from echobuf._engine.output import make_output_spec
from echobuf.analysis import cost_model
from echobuf.analysis.measurements import Measurements
from echobuf.analysis.ragged_lengths import RaggedLengths
from echobuf.analysis.simulation import Pipeline, simulate
from echobuf.arguments import check_factor
from echobuf.capacity import check_size, own_bytes
from echobuf.options import check_options
from echobuf.repeats import Repeats
from echobuf.spec import make_spec

FACTORS = range(1, 17)
"""Factors that predictions are made for."""

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
    """Predict an epoch of `count` >= 1 fresh examples; the window allows the factor."""
    exact = check_factor(factor)
    epoch = simulate(pipeline, exact, count)
    echoes = epoch.draws / count
    overlapped_s = pipeline.startup_s + count * cost_model.fresh_s(
        pipeline.upstream_s, pipeline.step_s, 1
    )
    same_steps_s = epoch.seconds / echoes
    busy_s = epoch.draws * pipeline.step_s
    steady = echoes if exact is None else float(exact)
    return Prediction(
        factor="auto" if exact is None else steady,
        effective_factor=echoes,
        fresh_s=cost_model.fresh_s(pipeline.upstream_s, pipeline.step_s, steady),
        epoch_s=epoch.seconds,
        same_steps_s=same_steps_s,
        speedup=overlapped_s / same_steps_s if same_steps_s > 0 else 1.0,
        wait_share=max(0.0, 1 - busy_s / epoch.seconds) if epoch.seconds > 0 else 0.0,
    )


@dataclass(frozen=True)
class EchoWorth:
    """Price of a factor's echoes, by `Repeats`, beside the time of a predicted epoch.

    Attributes:
        factor: the echoing factor, a number or "auto".
        worth: fresh examples that an example with its echoes is worth.
        last_echo: fresh examples that the last of them is worth; NaN without echoes.
        worth_per_s: `worth` of all examples over the seconds of the epoch: fresh
            examples per second that would teach as much.
        gain: `worth_per_s` over the `worth_per_s` of an epoch without echoing in which
            upstream and step overlap perfectly. It is the speed-up of the same steps,
            times the worth of a draw over its worth without echoing.
    """

    factor: float | str
    worth: float
    last_echo: float
    worth_per_s: float
    gain: float


def worth_of(prediction: Prediction, repeats: Repeats, count: int) -> EchoWorth:
    """Price the echoes of a predicted epoch of `count` fresh examples."""
    uses, seconds = prediction.effective_factor, prediction.epoch_s
    worth = repeats.worth(uses)
    return EchoWorth(
        factor=prediction.factor,
        worth=worth,
        last_echo=repeats.last_echo(uses),
        worth_per_s=worth * count / seconds if seconds > 0 else math.inf,
        gain=prediction.speedup * repeats.mean_worth(uses) / repeats.worth(1.0),
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
    core_options = make_core_options(read, make_output_spec(read, None), options)
    if options.device == "cpu":
        return Memory(0, own_bytes(core_options.needs()))
    return Memory(
        own_bytes(_core.DeviceBuffer.needs(core_options)),
        _core.DeviceBuffer.host_bytes(core_options),
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


def find_remedies(measured: Measurements) -> tuple[Remedy, ...]:
    """List the remedies that apply to this upstream."""
    step_s = measured.step_s.mean

    def remedy(name: str, before: float, after: float, note: str) -> Remedy:
        old = cost_model.fresh_s(before, step_s, 1)
        new = cost_model.fresh_s(after, step_s, 1)
        return Remedy(name, after, old / new if new > 0 else 1.0, note)

    upstream_s = measured.upstream_s.mean
    found = [
        remedy(name, upstream_s, after, "on free cores")
        for name, after in _workers(measured)
    ]
    if measured.storage_s:
        first_s = measured.upstream_first_s.mean
        found += [remedy(*each) for each in _from_storage(first_s, measured.storage_s)]
    return tuple(found)


def _workers(measured: Measurements) -> Iterator[tuple[str, float]]:
    """Yield numbers of worker processes, in words, and t_upstream with them."""
    upstream_s, parts = measured.upstream_s.mean, measured.loader
    now = 1 if parts is None else max(1, parts.workers)
    parallel = upstream_s  # one process's time that workers could share
    if parts is not None:
        parallel = min(parts.fetch_s + parts.collate_s, upstream_s * now)
    serial = max(0.0, upstream_s - parallel / now)
    numbers = {2 * now, 4 * now}
    enough = cost_model.workers_to_keep_up(serial, parallel, measured.step_s.mean)
    if enough is not None and now < enough:
        numbers.add(enough)
    for number in sorted(numbers):
        name = f"{number:,} workers" + (" (R = 1)" if number == enough else "")
        yield name, cost_model.with_workers_s(serial, parallel, number)


def _from_storage(
    first_s: float, storage_s: float
) -> Iterator[tuple[str, float, float, str]]:
    """Yield remedies for the part of the first pass that is the storage's."""
    rest_s = first_s - storage_s
    kinds = {
        "never evicts": cost_model.hits_never_evicted,
        "LRU": cost_model.hits_lru,
    }
    for share in cost_model.SHARES:
        for kind, hits_of in kinds.items():
            hits = hits_of(share)
            if share < 1 or kind != "LRU":
                after_s = cost_model.cached_s(rest_s, storage_s, hits)
                name = f"cache of {share:.0%}, {kind}"
                yield name, first_s, after_s, f"{hits:.0%} hits"
    for times in _FASTER:
        after_s = cost_model.faster_storage_s(rest_s, storage_s, times)
        yield f"storage {times:g} times as fast", first_s, after_s, "first pass"
