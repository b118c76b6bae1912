"""One demo, from the first file to the last line of its report."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import torch
from rich.console import Console

from echobuf.cli.demo.data import SIDE, test_set, write_digits
from echobuf.cli.demo.progress import display
from echobuf.cli.demo.report import Costs, DemoResult, as_json, table, write_picture
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.training import Model, Run, TrainingTask, train
from echobuf.cli.demo.upstream import ServerProcess
from echobuf.cli.output import print_json, wrapped

__all__ = ["calibrate", "next_bandwidth", "opened", "run_demo"]


def run_demo(
    settings: Settings, command_line: Sequence[str], *, in_json: bool = False
) -> DemoResult:
    """Run the demo, prints its report and writes its files.

    Args:
        settings: The settings; the folder `settings.out` must exist.
        command_line: The demo's command line, for the JSON file.
        in_json: Whether to print the content of the JSON file to stdout, and all
            other lines to stderr.

    Returns:
        The demo's result.
    """
    begin = time.perf_counter()
    console = Console(highlight=False, stderr=in_json)

    def write(line: str = "") -> None:
        console.print(wrapped(line), soft_wrap=True, markup=False)

    outcome = _measure(settings, console, write)
    console.print(table(outcome, console.width))
    for line in outcome.verdicts():
        write(line)
    picture, figures = settings.out / "accuracy.png", settings.out / "demo.json"
    write_picture(outcome, picture)
    content = as_json(outcome, command_line)
    text = json.dumps(content, indent=2, allow_nan=False)
    figures.write_text(text + "\n", encoding="utf-8")
    write(f"Picture: {picture}")
    write(f"Figures: {figures}")
    write(f"The whole demo took {time.perf_counter() - begin:.0f} s.")
    if in_json:
        print_json(content)
    return outcome


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[TrainingTask, ServerProcess]]:
    """Start the server, and return the training task over it."""
    with _one_thread(), TemporaryDirectory(prefix="echobuf-") as name:
        folder = Path(name)
        digits = write_digits(folder)
        images, labels = (
            torch.from_numpy(array).to(settings.device)
            for array in test_set(folder, digits.test)
        )
        with ServerProcess(folder) as server:
            yield (
                TrainingTask(settings, server.port, digits.train, images, labels),
                server,
            )


@contextmanager
def _one_thread() -> Iterator[None]:
    # One core trains and one loads, as the demo assumes.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _measure(
    settings: Settings, console: Console, write: Callable[[str], None]
) -> DemoResult:
    with opened(settings) as (task, server):
        write(
            f"{len(task.names)} digits to train on, as PNG files from a web server; "
            f"{len(task.labels)} to test on."
        )
        costs, bandwidth = calibrate(task, server)
        write(
            f"Measured: t_upstream {1e3 * costs.upstream_s:.2f} ms and t_downstream "
            f"{1e3 * costs.downstream_s:.2f} ms per example, R = {costs.ratio:.1f}, "
            f"at {bandwidth / 1000:.0f} kB/s."
        )
        runs = _runs(task, console, write)
    return DemoResult(settings, costs, bandwidth, runs)


def _runs(
    task: TrainingTask, console: Console, write: Callable[[str], None]
) -> tuple[Run, ...]:
    runs = []
    with display(task.settings, console, write) as shown:
        for condition in task.settings.conditions:
            shown.begin(condition)
            runs.append(train(task, condition, shown.seen))
            shown.end()
    return tuple(runs)


_FIRST_GUESS = 100e3  # bytes/s
_ROUNDS = 3
_WARM_UP_STEPS = 20
_FEWEST = 4  # examples to count at least, however slow the upstream is


def calibrate(task: TrainingTask, server: ServerProcess) -> tuple[Costs, float]:
    """Measure both costs while both sides work, as they do in the runs.

    Args:
        task: The upstream and the model to measure.
        server: The server, whose bandwidth is set to the value returned.

    Returns:
        The costs, and the bandwidth in bytes a second.
    """
    model = task.model()
    step = _training_step(task, model)
    for _ in range(_WARM_UP_STEPS):
        step()
    model.wait()

    def measure(bandwidth: float) -> Costs:
        server.set_bandwidth(bandwidth)
        return _costs(task, model, step)

    given = task.settings.bandwidth_kb_s
    if given is not None:
        return measure(1000.0 * given), 1000.0 * given
    bandwidth = _FIRST_GUESS
    for _ in range(_ROUNDS - 1):
        costs = measure(bandwidth)
        bandwidth = next_bandwidth(bandwidth, costs, task.settings.ratio)
    return measure(bandwidth), bandwidth


def next_bandwidth(bandwidth: float, costs: Costs, ratio: float) -> float:
    """Return the bandwidth for R = `ratio`, from the costs at another bandwidth."""
    return bandwidth * costs.ratio / ratio


def _training_step(task: TrainingTask, model: Model) -> Callable[[], None]:
    size, device = task.settings.batch_size, task.settings.device
    images = torch.zeros(size, SIDE, SIDE, dtype=torch.uint8, device=device)
    labels = torch.zeros(size, dtype=torch.int64, device=device)
    return lambda: model.step(images, labels)


def _costs(task: TrainingTask, model: Model, step: Callable[[], None]) -> Costs:
    with _Counter(task) as counter:
        begin, steps = time.perf_counter(), 0
        while not counter.enough():
            step()
            steps += 1
        model.wait()
        elapsed = time.perf_counter() - begin
    return Costs(counter.mean_s(), elapsed / (steps * task.settings.batch_size))


class _Counter:
    """Counter of the examples that the upstream yields on a background thread."""

    def __init__(self, task: TrainingTask) -> None:
        self._source = task.stream()
        self._least_s = task.settings.calibration_s
        self._times: list[float] = []
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for _ in self._source:
                self._times.append(time.perf_counter())
                if self._stop.is_set():
                    return
        except Exception as error:
            self._error = error

    def enough(self) -> bool:
        """Return whether there are enough examples; raise the upstream's error."""
        if self._error is not None:
            raise self._error
        times = self._times
        return len(times) > _FEWEST and times[-1] - times[0] >= self._least_s

    def mean_s(self) -> float:
        """Return seconds per example, counted from the first one on."""
        return (self._times[-1] - self._times[0]) / (len(self._times) - 1)

    def __enter__(self) -> _Counter:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if kind is None:  # Ctrl-C does not wait for a slow upstream
            self._thread.join()
