"""The two workloads of the experiments, by name."""

from __future__ import annotations

from workloads.workload import Learner, Workload

__all__ = ["NAMES", "Learner", "Workload", "workload"]

NAMES = ("images", "text")


def workload(name: str) -> Workload:
    """Make the workload of that name, and read its data."""
    if name in ("images", "mirrored"):
        from workloads.images import Images, Mirrored

        return Images() if name == "images" else Mirrored()
    from workloads.text import Text

    return Text()
