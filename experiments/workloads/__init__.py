"""The two workloads of the experiments, by name."""

from __future__ import annotations

from workloads.workload import Learner, Workload

__all__ = ["NAMES", "Learner", "Workload", "workload"]

NAMES = ("images", "text")


def workload(name: str) -> Workload:
    """Make the workload of that name, and read its data."""
    if name == "images":
        from workloads.images import Images

        return Images()
    from workloads.text import Text

    return Text()
