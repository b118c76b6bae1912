"""Progress of the demo."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

import io
from dataclasses import replace

import pytest

from demo_parts import point, require_demo

require_demo()

from rich.console import Console

from echobuf.cli.demo import progress
from echobuf.cli.demo.settings import CONDITIONS, Settings


def test_lines_come_every_few_seconds_and_at_the_end():
    lines = []
    shown = progress.Lines(lines.append)
    shown.begin(CONDITIONS[0])
    for seconds in range(13):
        shown.seen(point(float(seconds)))
    shown.end()
    assert [line.split()[3] for line in lines] == ["5.0", "10.0", "12.0"]
    assert all(line.startswith("no echoing") for line in lines)
    shown.end()
    assert len(lines) == 3


def test_display_suits_the_output():
    plain = Console(file=io.StringIO())
    terminal = Console(file=io.StringIO(), force_terminal=True, _environ={})
    assert type(progress.display(Settings(), plain, print)) is progress.Lines
    assert type(progress.display(Settings(), terminal, print)) is progress.Live
    silent = progress.display(Settings(progress=False), terminal, print)
    assert type(silent) is progress.Silent


def test_live_bars_show_the_last_figures():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, _environ={})
    with progress.Live(console, 0.95) as shown:
        shown.begin(CONDITIONS[2])
        shown.seen(point(3.0, accuracy=0.97, factor=6.0))
        shown.end()
    assert "x6.00" in text.getvalue()
    assert "example echoing" in text.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_live_bars_are_whole_in_a_narrow_terminal(width, condition):
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, _environ={})
    with progress.Live(console, 0.95) as shown:
        shown.begin(condition)
        shown.seen(replace(point(123.4, factor=12.0), fresh=12_345, steps=12_345))
        shown.end()
    assert "\u2026" not in text.getvalue()  # nothing is cut off
    assert condition.title in text.getvalue()
    assert "12345 steps x12.00" in text.getvalue()
