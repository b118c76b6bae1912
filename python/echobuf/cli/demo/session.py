"""One demo, from the first file to the last line of its report."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from echobuf.cli.demo.data import SIDE, test_set, write_digits
from echobuf.cli.demo.progress import display
from echobuf.cli.demo.report import Costs, DemoResult, as_json, table, write_picture
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.training import Model, TrainingTask, train
from echobuf.cli.demo.upstream import ServerProcess
from echobuf.cli.output import print_json, wrapped


def run_demo(
    settings: Settings, command_line: Sequence[str], *, in_json: bool = False
) -> DemoResult:
    """Run the demo, print its report and write its files into `settings.out`.

    With `in_json` the content of the JSON file goes to stdout, all else to stderr.
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
    """Start the server, and return the training task over it.

    One core trains and one loads, as the demo assumes.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with TemporaryDirectory(prefix="echobuf-") as name:
            folder = Path(name)
            digits = write_digits(folder)
            images, labels = (
                torch.from_numpy(array).to(settings.device)
                for array in test_set(folder, digits.test)
            )
            with ServerProcess(folder) as server:
                port, names = server.port, digits.train
                yield TrainingTask(settings, port, names, images, labels), server
    finally:
        torch.set_num_threads(threads)


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
        runs = []
        with display(settings, console, write) as shown:
            for condition in settings.conditions:
                shown.begin(condition)
                runs.append(train(task, condition, shown.seen))
                shown.end()
    return DemoResult(settings, costs, bandwidth, tuple(runs))


_FIRST_GUESS = 100e3  # bytes/s
_ROUNDS = 3
_WARM_UP_STEPS = 20
_FEWEST = 4  # examples to count at least, however slow the upstream is


def calibrate(task: TrainingTask, server: ServerProcess) -> tuple[Costs, float]:
    """Measure both costs while both sides work, as they do in the runs.

    Returns the costs, and the bandwidth in bytes a second, to which the server is set.
    """
    settings, model = task.settings, task.model()
    size, device = settings.batch_size, settings.device
    images = torch.zeros(size, SIDE, SIDE, dtype=torch.uint8, device=device)
    labels = torch.zeros(size, dtype=torch.int64, device=device)

    def step() -> None:
        model.step(images, labels)

    for _ in range(_WARM_UP_STEPS):
        step()
    model.wait()
    given = settings.bandwidth_kb_s
    bandwidth = _FIRST_GUESS if given is None else 1000.0 * given
    for _ in range(_ROUNDS - 1 if given is None else 0):
        server.set_bandwidth(bandwidth)
        costs = _costs(task, model, step)
        bandwidth = next_bandwidth(bandwidth, costs, settings.ratio)
    server.set_bandwidth(bandwidth)
    return _costs(task, model, step), bandwidth


def next_bandwidth(bandwidth: float, costs: Costs, ratio: float) -> float:
    """Return the bandwidth for R = `ratio`, from the costs at another bandwidth."""
    return bandwidth * costs.ratio / ratio


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

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._stop.set()
        if kind is None:  # Ctrl-C does not wait for a slow upstream
            self._thread.join()
