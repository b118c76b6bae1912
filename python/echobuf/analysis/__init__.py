"""`analyze`: timings of upstream and of the training step, and the report on them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echobuf.analysis.cluster import Cluster
    from echobuf.analysis.measure import analyze
    from echobuf.analysis.report import Report
    from echobuf.repeats import Repeats


def __getattr__(name: str) -> Any:
    if name == "analyze":  # imported when they are first wanted
        from echobuf.analysis.measure import analyze

        return analyze
    if name == "Report":
        from echobuf.analysis.report import Report

        return Report
    if name == "Cluster":
        from echobuf.analysis.cluster import Cluster

        return Cluster
    if name == "Repeats":
        from echobuf.repeats import Repeats

        return Repeats
    raise AttributeError(f"module 'echobuf.analysis' has no attribute {name!r}")


__all__ = ["Cluster", "Repeats", "Report", "analyze"]
