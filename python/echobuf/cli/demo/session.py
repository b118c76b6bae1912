"""One demo from the first file to the last line of its report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from echobuf.cli.demo.calibration import calibrate
from echobuf.cli.demo.data import test_set, write_digits
from echobuf.cli.demo.outcome import Outcome
from echobuf.cli.demo.picture import write_picture
from echobuf.cli.demo.progress import display
from echobuf.cli.demo.report import as_json, table
from echobuf.cli.demo.serving import ServerProcess
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.task import Task
from echobuf.cli.demo.training import Run, train
from echobuf.cli.output import print_json, wrapped

__all__ = ["opened", "run_demo"]


def run_demo(
    settings: Settings, command_line: Sequence[str], *, in_json: bool = False
) -> Outcome:
    """Runs the demo, prints its report and writes its files.

    Args:
        settings: The choices; the folder `settings.out` must exist.
        command_line: How the demo was called, for the JSON file.
        in_json: Whether to print what the JSON file holds, and the rest to stderr.

    Returns:
        What it found.
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
def opened(settings: Settings) -> Iterator[tuple[Task, ServerProcess]]:
    """What is to be measured, and the server that its files come from."""
    with _one_thread(), TemporaryDirectory(prefix="echobuf-") as name:
        folder = Path(name)
        digits = write_digits(folder)
        images, labels = (
            torch.from_numpy(array).to(settings.device)
            for array in test_set(folder, digits.test)
        )
        with ServerProcess(folder) as server:
            yield Task(settings, server.port, digits.train, images, labels), server


@contextmanager
def _one_thread() -> Iterator[None]:
    # One core trains and one loads, as on the machines that this is made for.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _measure(
    settings: Settings, console: Console, write: Callable[[str], None]
) -> Outcome:
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
    return Outcome(settings, costs, bandwidth, runs)


def _runs(
    task: Task, console: Console, write: Callable[[str], None]
) -> tuple[Run, ...]:
    runs = []
    with display(task.settings, console, write) as shown:
        for condition in task.settings.conditions:
            shown.begin(condition)
            runs.append(train(task, condition, shown.seen))
            shown.end()
    return tuple(runs)
