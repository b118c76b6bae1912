"""What the reader of a report must know beside the figures."""

from __future__ import annotations

import os
from collections.abc import Iterator

from echobuf.analysis import units
from echobuf.analysis.passes import Pass
from echobuf.analysis.reading import Reading
from echobuf.analysis.source import Source
from echobuf.analysis.step import Step

_BUSY = 0.5  # of the processors in use by others
_SHORT_S = 1.0
_WIDE = 0.2  # of the mean, that quarters of the run may differ by


def about_load() -> Iterator[str]:
    """On a machine that others use: their share, before anything is measured."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return
    count = os.cpu_count() or 1
    if load > _BUSY * count:
        yield (
            f"The load average was {load:.1f} on {count} processors before measuring: "
            "other programs make the step and upstream slower than they are."
        )


def about_passes(first: Pass, second: Pass | None) -> Iterator[str]:
    """On passes that were short, or cut."""
    if first.ended and first.seconds < _SHORT_S:
        yield (
            f"An epoch of upstream took {first.seconds:.2g} s "
            f"({first.items} items); it was repeated."
        )
    if not first.ended:
        part = (
            ""
            if second is None or second.items >= first.items
            else (f"; the second pass took in {second.items} of them")
        )
        yield f"Measured on the first {first.items} items of upstream{part}."


def about_spread(name: str, reading: Reading) -> Iterator[str]:
    """On times that differ much between parts of the run."""
    parts = reading.parts()
    if not parts or max(parts) - min(parts) <= _WIDE * sum(parts) / len(parts):
        return
    ends = units.interval(min(parts), max(parts))
    yield (
        f"The time of {name} was not steady: {ends} an example, by quarters of the "
        "run. What is predicted varies as much; measure on an idle machine, or for "
        "longer."
    )


def about_source(source: Source, counted: int | None) -> Iterator[str]:
    """On workers that each may yield everything.

    Args:
        source: upstream.
        counted: examples that a whole pass yielded, if there was one.
    """
    loader = source.data_loader
    if loader is None or not source.workers:
        return
    from torch.utils.data import IterableDataset

    if not isinstance(loader.dataset, IterableDataset):
        return
    line = (
        f"An IterableDataset with {source.workers} workers: each yields all of it, "
        "unless it takes its share by `torch.utils.data.get_worker_info()`."
    )
    try:
        said = len(loader.dataset)  # type: ignore[arg-type]
    except Exception:
        said = None
    if counted is not None and said is not None and counted != said:
        line += f" An epoch held {counted} examples; len(dataset) is {said}."
    yield line


def about_step(step: Step) -> Iterator[str]:
    """On a step that changes what it is given."""
    if step.changes_batch:
        yield (
            "The step changes its batch in place: alone, each call was given a copy, "
            "made apart."
        )
