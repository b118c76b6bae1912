"""`analyze`: measures upstream and the step, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from echobuf.analysis.cost_model import Cluster
from echobuf.analysis.loaders import SourceArguments, unwrap
from echobuf.analysis.report import Report
from echobuf.analysis.run import Run
from echobuf.analysis.source import Source
from echobuf.analysis.step import Step
from echobuf.analysis.timing import Budget
from echobuf.arguments import check_bool, check_device, check_int, check_number
from echobuf.errors import OptionError, show
from echobuf.loader import EchoLoader
from echobuf.repeats import Repeats

_MOST_S = 1_000_000  # some eleven days


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
    repeats: Repeats | None = None,
) -> Report:
    """Measure whether training waits for its input, and predict the gain of echoing.

    After DS-Analyzer (Mohan et al. 2020, arXiv:2007.06775), in phases: upstream alone,
    a first and a second pass over the same examples; the step alone, on a resident
    batch; both together, as an `EchoLoader` without echoing overlaps them. Unlike
    DS-Analyzer, it does not empty the page cache before the first pass. Each phase
    stops when the 95 % confidence interval of its mean is narrow, or when its share of
    the time is used.

    `step` is called many times, and trains each time: give it a model that is used for
    nothing else. The states of the random generators of Python, NumPy, torch and a
    DataLoader are restored afterwards; JAX has none.

    Args:
        upstream: any iterable of examples or of batches. One that gives one epoch only
            (a generator) is read partly alone and partly together. For an `EchoLoader`
            its upstream is analyzed, with as many worker processes; the loader's
            arguments replace those that are left out here.
        step: a function that takes one batch and trains on it. If its result is
            computed on a device, the analysis waits for it.
        batch_size: examples that the step takes; by default those of upstream's
            batches.
        batched: whether upstream yields batches (examples stacked on axis 0). By
            default True for a DataLoader that makes batches, and where `batch_size` is
            not given.
        window: examples in the window to predict for; by default 32 batches, or the
            epoch if that is shorter.
        max_factor: largest echoing factor of "auto"; 8 by default.
        length: examples in an epoch, where upstream has no length.
        device: device on which a loader would serve batches, as for `EchoLoader`.
        seconds: time to measure for, in all. A slow step or upstream takes longer,
            since each is timed a few times.
        interval: half-width of a confidence interval, relative to its mean, at which a
            phase stops.
        timeout: seconds to wait for one item of upstream.
        synchronize: a function without arguments that returns when the device has done
            the step's work. By default those of torch, JAX and CuPy, where they are
            imported and have a device.
        progress: called with the name of each phase as it begins.
        cluster: ranks of a job to predict epochs for, too, from the timings of this
            process.
        repeats: price of echoes, with the epochs that the training has; by default
            `Repeats()`, for one epoch.

    Returns:
        The report; `print(report)` shows it as a table.

    Raises:
        OptionError: an argument is out of range, or of another type.
        UpstreamError: upstream yields nothing, raised, ended too soon, or hangs.
        StepError: the step raised, or returns at once.
        SpecError: upstream yields leaves that cannot be stored.
        CapacityError: `window` is larger than any machine's memory.
        DeviceError: the step works on a device that echobuf cannot synchronize.

    Examples:
        >>> import time
        >>> def upstream():
        ...     while True:
        ...         time.sleep(0.002)  # reads and decodes
        ...         yield np.zeros(8)
        >>> def step(batch):
        ...     return sum(range(2_000))  # trains
        >>> report = echobuf.analyze(upstream(), step, batch_size=4, seconds=0.2)
        >>> report.ratio.mean > 1  # R: training waits for its input
        True
    """
    if not (repeats is None or isinstance(repeats, Repeats)):
        raise OptionError(
            f"`repeats` is {show(repeats)}; it must be an `echobuf.analysis.Repeats`, "
            "such as `Repeats(epochs=3)`."
        )
    if batched is not None:
        check_bool("batched", batched)
    checked: dict[str, Any] = {
        name: check_int(name, value, 1, most)
        for name, value, most in (
            ("max_factor", max_factor, 2**31 - 1),
            ("batch_size", batch_size, None),
            ("window", window, None),
            ("length", length, None),
        )
        if value is not None
    }
    device = check_device(device)
    if isinstance(upstream, EchoLoader):
        arguments = unwrap(upstream)
        device = arguments.device if device == "cpu" else device
    else:
        arguments = SourceArguments(upstream, batched)
    source = Source(replace(arguments, device=device, **checked))
    if window is not None:
        check_int("window", window, max(1, source.batch_size), None)
    run = Run(
        source,
        Step(step, synchronize),
        Budget(
            _check_positive("seconds", seconds),
            _check_positive("interval", interval),
            progress,
        ),
        _check_positive("timeout", timeout),
    )
    return Report(run.measure(), cluster, repeats)


def _check_positive(name: str, value: Any) -> float:
    words = f"a number > 0, and at most {_MOST_S:,}"
    return check_number(name, value, lambda x: 0 < x <= _MOST_S, words)
