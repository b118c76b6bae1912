"""`Monitor`, which writes a loader's or buffer's statistics to sinks while it trains.

The package behind a sink is imported when the sink is made.
"""

from echobuf.metrics.monitor import Monitor, Sink, metrics_of
from echobuf.metrics.sinks import Progress, Prometheus, TensorBoard, WandB

__all__ = [
    "Monitor",
    "Progress",
    "Prometheus",
    "Sink",
    "TensorBoard",
    "WandB",
    "metrics_of",
]
