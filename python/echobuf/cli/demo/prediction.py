"""The formula that says how long a run takes."""

from __future__ import annotations

__all__ = ["predict_seconds"]


def predict_seconds(
    fresh: int, factor: float, upstream_s: float, downstream_s: float
) -> float:
    """The time for `fresh` examples, each echoed `factor` times.

    With both sides at work at the same time, the slower one decides: a fresh example
    costs max(t_upstream, e * t_downstream).

    Args:
        fresh: Fresh examples.
        factor: The effective echoing factor e.
        upstream_s: t_upstream, seconds per fresh example.
        downstream_s: t_downstream, seconds per example trained on.

    Returns:
        Seconds.
    """
    return fresh * max(upstream_s, factor * downstream_s)
