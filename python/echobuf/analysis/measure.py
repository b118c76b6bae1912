"""`analyze`: measures upstream and the step, alone and together."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from echobuf.analysis.echo_loader import unwrap
from echobuf.analysis.measurements import Measurements
from echobuf.analysis.phases import Budget, Clock
from echobuf.analysis.run import Run
from echobuf.analysis.source import Source
from echobuf.analysis.step import Step
from echobuf.analysis.synchronising import Synchroniser
from echobuf.errors import OptionError
from echobuf.loader import EchoLoader
from echobuf.options import check_bool, check_device, check_int

if TYPE_CHECKING:
    from echobuf.analysis.across import Cluster
    from echobuf.analysis.report import Report

_MOST = 1_000_000  # seconds, some eleven days


def analyze(
    upstream: Iterable[Any],
    step: Callable[[Any], Any],
    *,
    batch_size: int | None = None,
    batched: bool | None = None,
    window: int | None = None,
    max_factor: int | None = None,
    length: int | None = None,
    device: str = "cpu",
    seconds: float = 30.0,
    interval: float = 0.02,
    timeout: float = 60.0,
    synchronize: Callable[[], Any] | None = None,
    progress: Callable[[str], None] | None = None,
    cluster: Cluster | None = None,
) -> Report:
    """Measures whether training waits for its input, and what echoing would bring.

    After DS-Analyzer (Mohan et al. 2020, arXiv:2007.06775), in phases: upstream alone,
    a first and a second pass over the same examples; the step alone, on a batch that is
    there already; both together, as an `EchoLoader` without echoing overlaps them. The
    page cache is not emptied before the first pass, as DS-Analyzer does. Each phase
    stops when the 95 % confidence interval of its mean is narrow, or when its share of
    the time is used.

    `step` is called many times, and trains each time: give it a model of its own. The
    generators of random numbers of Python, NumPy, torch and a DataLoader are left as
    they were; JAX has none.

    Args:
        upstream: any iterable of examples or of batches. One that gives one epoch only
            (a generator) is read a part alone and a part together. Of an `EchoLoader`
            it is what that reads, with as many worker processes; its own settings
            stand for those that are left out.
        step: a function that takes one batch and trains on it. What it returns is
            waited for, where it is computed on a device.
        batch_size: examples that the step takes: that of upstream's batches unless
            told.
        batched: whether upstream yields batches (examples stacked on axis 0). Unless
            told it does if it is a DataLoader that makes batches, or if `batch_size` is
            not given.
        window: examples in the window that predictions are made for; 32 batches, or
            the epoch if that is shorter, unless told.
        max_factor: largest echoing factor to be considered with factor "auto"; 8
            unless told.
        length: examples in an epoch, where upstream does not say.
        device: where a loader would serve batches, as for `EchoLoader`.
        seconds: to measure for, all in all. A slow step or upstream takes longer: each
            is seen a few times.
        interval: half-width of a confidence interval, relative to its mean, that is
            narrow enough.
        timeout: seconds to wait for one item of upstream.
        synchronize: a function without arguments that returns when the device has done
            the step's work. Unless given, that of torch, JAX or CuPy is used where they
            are imported and have a device.
        progress: called with the name of each phase as it begins.
        cluster: ranks of a job to predict epochs for, too, from what this one takes.

    Returns:
        The report: `print` it.

    Raises:
        OptionError: an argument is out of range, or of another kind.
        UpstreamError: upstream yields nothing, raised, ended too soon, or hangs.
        StepError: the step raised, or returns at once.
        SpecError: upstream yields what cannot be stored.
        CapacityError: `window` is more than any machine has.
        DeviceError: the step works on a device that cannot be waited for.
    """
    from echobuf.analysis.report import Report

    return Report(
        measure(
            upstream,
            step,
            batch_size=batch_size,
            batched=batched,
            window=window,
            max_factor=max_factor,
            length=length,
            device=device,
            seconds=seconds,
            interval=interval,
            timeout=timeout,
            synchronize=synchronize,
            progress=progress,
        ),
        cluster,
    )


def measure(
    upstream: Iterable[Any],
    step: Callable[[Any], Any],
    *,
    batch_size: int | None = None,
    batched: bool | None = None,
    window: int | None = None,
    max_factor: int | None = None,
    length: int | None = None,
    device: str = "cpu",
    seconds: float = 30.0,
    interval: float = 0.02,
    timeout: float = 60.0,
    synchronize: Callable[[], Any] | None = None,
    progress: Callable[[str], None] | None = None,
    clock: Clock = time.perf_counter,
) -> Measurements:
    """The figures of `analyze`, which says what the arguments are.

    `clock` gives seconds, in place of the machine's.
    """
    if batched is not None:
        check_bool("batched", batched)
    if max_factor is not None:
        max_factor = check_int("max_factor", max_factor, 1, 2**31 - 1)
    if batch_size is not None:
        batch_size = check_int("batch_size", batch_size, 1, None)
    if length is not None:
        length = check_int("length", length, 1, None)
    device, transform, seed = check_device(device), None, 0
    if isinstance(upstream, EchoLoader):
        loader = unwrap(upstream)
        upstream, batched = loader.upstream, loader.batched
        batch_size = batch_size or loader.batch_size
        window = window or loader.window
        max_factor = max_factor or loader.max_factor
        length = length or loader.length
        device = loader.device if device == "cpu" else device
        transform, seed = loader.transform, loader.seed
    source = Source(
        upstream,
        batch_size=batch_size,
        batched=batched,
        length=length,
        device=device,
        transform=transform,
        seed=seed,
    )
    if window is not None:
        window = check_int("window", window, max(1, source.batch_size), None)
    run = Run(
        source,
        Step(step, Synchroniser(synchronize), clock),
        Budget(
            _check_positive("seconds", seconds),
            _check_positive("interval", interval),
            clock,
            progress,
        ),
        clock,
        _check_positive("timeout", timeout),
        window,
    )
    return run.measure(max_factor or 8, device)


def _check_positive(name: str, value: Any) -> float:
    ok = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (ok and 0 < value <= _MOST):  # false for NaN, too
        shown = f"{value!r:.40}"
        raise OptionError(
            f"`{name}` is {shown}; it must be a number > 0, and at most {_MOST:,}."
        )
    return float(value)
