"""Progress of the demo: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from echobuf.cli.demo.settings import CONDITIONS, Condition, Settings
from echobuf.cli.demo.training import Point

_LIVE_S = 0.25
_LINE_S = 5.0
_TITLE = max(len(each.title) for each in CONDITIONS)
_NARROW = 72  # columns
_LONGEST = Point(999.9, 999_999, 99_999, 0.0, 99.99, 1.0, 1.0, True)


class Silent(AbstractContextManager["Silent"]):
    """Display that shows nothing; base class of the others."""

    def begin(self, condition: Condition) -> None:
        """Begin a run."""

    def seen(self, point: Point) -> None:
        """Show an evaluation."""

    def end(self) -> None:
        """End the run."""

    def __exit__(self, *error: object) -> None:
        return None


class Lines(Silent):
    """Display that prints a line every few seconds of a run, for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._title = ""
        self._last: Point | None = None
        self._next_s = 0.0

    def begin(self, condition: Condition) -> None:
        """Begin a run."""
        self._title, self._last, self._next_s = condition.title, None, _LINE_S

    def seen(self, point: Point) -> None:
        """Print the evaluation, if enough time has passed since the last line."""
        self._last = point
        if point.seconds >= self._next_s:
            self._next_s = point.seconds + _LINE_S
            self.end()

    def end(self) -> None:
        """Print the last evaluation, unless it is printed."""
        if self._last is not None:
            self._write(f"{self._title:<{_TITLE}} {_text(self._last)}")
            self._last = None


class Live(Silent):
    """Bars on a terminal, drawn between training steps and not by a thread.

    A bar is full at the accuracy `target`.
    """

    def __init__(self, console: Console, target: float) -> None:
        self._target = target
        self._drawn_at = 0.0
        self._task = TaskID(0)
        self._is_narrow = console.width < _NARROW
        room = console.width - _TITLE - len(_text(_LONGEST, self._is_narrow)) - 3
        self._bars = Progress(
            TextColumn(f"{{task.description:<{_TITLE}}}"),
            BarColumn(bar_width=max(1, min(16, room))),
            TextColumn("{task.fields[text]}"),
            console=console,
            auto_refresh=False,
        )

    def begin(self, condition: Condition) -> None:
        """Add the run's bar."""
        text = "starting"
        self._task = self._bars.add_task(condition.title, total=self._target, text=text)
        self._bars.refresh()

    def seen(self, point: Point) -> None:
        """Move the bar."""
        done, text = min(point.smoothed, self._target), _text(point, self._is_narrow)
        self._bars.update(self._task, completed=done, text=text)
        if time.monotonic() - self._drawn_at >= _LIVE_S:
            self._drawn_at = time.monotonic()
            self._bars.refresh()

    def end(self) -> None:
        """Draw the last state of the bar."""
        self._bars.refresh()

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()


def display(
    settings: Settings, console: Console, write: Callable[[str], None]
) -> Silent:
    """Choose the display for the settings and the console."""
    if not settings.progress:
        return Silent()
    live = console.is_terminal and not console.is_dumb_terminal
    return Live(console, settings.target) if live else Lines(write)


def _text(point: Point, is_narrow: bool = False) -> str:
    fresh = "" if is_narrow else f" {point.fresh:6d} fresh"
    return (
        f"{point.smoothed:6.1%} {point.seconds:5.1f} s{fresh} {point.steps:5d} steps "
        f"x{point.factor:.2f}"
    )
