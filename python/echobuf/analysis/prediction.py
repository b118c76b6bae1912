"""Predictions for an echoing factor: time, speed-up and memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from echobuf import _core
from echobuf._engine.backends import make_core_options
from echobuf._engine.capacity import check_size, own_bytes
from echobuf._engine.output_spec import make_output_spec
from echobuf.analysis import formulas
from echobuf.analysis.simulation import Pipeline, simulate
from echobuf.options import check_factor, check_options
from echobuf.tree import make_spec

FACTORS = range(1, 17)
"""Factors that predictions are made for."""


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
) -> Memory:
    """Compute the memory of an `EchoBuffer` with these arguments; allocates nothing.

    Raises:
        OptionError: an argument is out of range.
        SpecError: the spec is empty or has leaves that cannot be stored.
        CapacityError: the buffer is larger than any machine's memory.
    """
    options = check_options(
        batch_size=batch_size,
        window=window,
        factor=factor,
        max_factor=max_factor,
        unit="example",
        device=device,
        seed=0,
        transform=None,
        prefetch=0,
        drop_last=False,
        max_bytes=None,
    )
    read = make_spec(spec)
    check_size(read, options)
    core_options = make_core_options(
        read, make_output_spec(read, None, ragged=False), options
    )
    if options.device == "cpu":
        return Memory(0, own_bytes(core_options.needs()))
    return Memory(
        own_bytes(_core.DeviceBuffer.needs(core_options)),
        _core.DeviceBuffer.staging_bytes(core_options),
    )
