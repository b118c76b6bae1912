"""The two workloads of the experiments, by name."""

from __future__ import annotations

from workloads.workload import Learner, Workload

__all__ = ["NAMES", "Learner", "Workload", "workload"]

NAMES = ("images", "text")


def workload(name: str) -> Workload:
    """The workload of that name; its data are read when it is made."""
    if name == "images":
        from workloads.images import Images

        return Images()
    from workloads.text import Text

    return Text()
