"""The cells of the matrix: settings x ends x moments, and those that make no sense."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import echobuf

SETTINGS = (
    "thread",
    "workers",
    "server",
    "server_workers",
    "attached",
    "attached_overlap",
    "ranks",
)
ODD = ("odd_surrogates", "odd_long", "odd_repr", "odd_unpicklable")
RAISES = ("raises", *ODD)
UPSTREAM = ("ends", *RAISES, "hangs")
CONSUMER = ("breaks", "drops_loader", "drops_iterator", "closes", "ctrl_c")
PROCESS = ("sigterm", "sigkill", "stopped")
RESOURCES = ("files", "memory", "threads", "disk")
ENDS = (*UPSTREAM, *CONSUMER, *PROCESS, *RESOURCES)
MOMENTS = ("first", "between", "ahead", "resumed")

SERVED = ("server", "server_workers", "attached", "attached_overlap")
"""Settings with a server process and a job process."""


class Cell(NamedTuple):
    """One way to end, in one setting, at one moment."""

    setting: str
    end: str
    moment: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def is_server(self) -> bool:
        """Return whether the end befalls the server process."""
        return self.setting in ("server", "server_workers")


def _is_job(cell: Cell) -> bool:
    return cell.setting in ("attached", "attached_overlap")


RULES: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    (
        "a server has no consumer: the cells of `attached` have it",
        lambda cell: (
            cell.is_server and cell.end in ("breaks", "drops_loader", "drops_iterator")
        ),
    ),
    (
        "upstream runs in the server: the cells of `server` have it, whose job this is",
        lambda cell: cell.setting == "attached" and cell.end in UPSTREAM,
    ),
    (
        "without `overlap_epochs` a job opens no epoch ahead",
        lambda cell: cell.setting == "attached" and cell.moment == "ahead",
    ),
    (
        "a rank opens no epoch ahead of the others: `overlap_epochs` is refused",
        lambda cell: cell.setting == "ranks" and cell.moment == "ahead",
    ),
    (
        "a job writes nothing to a disk; the server does",
        lambda cell: _is_job(cell) and cell.end == "disk",
    ),
    (
        "a rank reads as a thread does: the cells of `thread` have it",
        lambda cell: cell.setting == "ranks" and cell.end in ("disk", "memory"),
    ),
    (
        "a loader has no `close()`",
        lambda cell: (
            cell.setting in ("thread", "workers", "ranks")
            and cell.end == "closes"
            and not hasattr(echobuf.EchoLoader, "close")
        ),
    ),
    (
        "an iterator cannot be dropped where there is none: `first` has it",
        lambda cell: cell.end == "drops_iterator" and cell.moment == "between",
    ),
    (
        "a spill folder is filled when the server begins, before any epoch",
        lambda cell: cell.is_server and cell.end == "disk" and cell.moment != "first",
    ),
)


def why_excluded(cell: Cell) -> str | None:
    """Return the reason for which the cell makes no sense, or None."""
    return next((reason for reason, holds in RULES if holds(cell)), None)


ALL = [Cell(*each) for each in itertools.product(SETTINGS, ENDS, MOMENTS)]
CELLS = [cell for cell in ALL if why_excluded(cell) is None]
EXCLUDED = {cell: why for cell in ALL if (why := why_excluded(cell)) is not None}


def find(name: str) -> Cell:
    """Return the cell of that name."""
    cell = Cell(*name.split("/"))
    if cell not in ALL:
        raise SystemExit(f"no such cell: {name}; `--list` names all")
    if cell in EXCLUDED:
        raise SystemExit(f"{name} is excluded: {EXCLUDED[cell]}")
    return cell
