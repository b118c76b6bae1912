"""`Progress`: a sink that prints a line of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echobuf.metrics.monitor import require

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


class Progress:
    """Sink that updates one line on a terminal; elsewhere it prints a line a write.

    The line changes with each write only. It stays when a loop ends, and the next loop
    has another line.

    Args:
        console: a `rich.console.Console`; by default one for standard error.

    Raises:
        MissingPackageError: rich is not installed.
    """

    def __init__(self, console: Any = None) -> None:
        self._live_of = require("rich.live", "rich", "Progress()").Live
        if console is None:
            console = require("rich.console", "rich", "Progress()").Console(stderr=True)
        self._text = require("rich.text", "rich", "Progress()").Text
        self._console = console
        self._live: Any = None

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics."""
        text = self._text(_line(step, metrics), no_wrap=True, overflow="ellipsis")
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            self._console.print(text, highlight=False, soft_wrap=True)
        elif self._live is None:
            self._live = self._live_of(
                text, console=self._console, auto_refresh=False, redirect_stdout=True
            )
            self._live.start(refresh=True)
        else:
            self._live.update(text, refresh=True)

    def end(self) -> None:
        """End the line, which stays on the terminal."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _line(step: int, metrics: Mapping[str, float]) -> str:
    known = {name.rpartition("/")[2]: value for name, value in metrics.items()}
    parts = [f"step {step:,}"]
    parts += [f"{name} {_short(known[name])}" for name in ("fresh", "served")]
    parts.append(f"e {known['effective_factor']:.2f}")
    parts.append(f"R {known['ratio']:.2f}" if "ratio" in known else "R -")
    parts.append(f"waiting {known['wait_share']:.1%}")
    return "  ".join(parts)


def _short(count: float) -> str:
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.0f}"
