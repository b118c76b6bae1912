"""`Monitor`, which writes a loader's or buffer's statistics to sinks while it trains.

Each name is imported on first use, and the package behind a sink when the sink is made.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "Monitor": "monitor",
    "Progress": "sinks",
    "Prometheus": "sinks",
    "Sink": "monitor",
    "TensorBoard": "sinks",
    "WandB": "sinks",
    "metrics_of": "monitor",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"echobuf.metrics.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'echobuf.metrics' has no attribute {name!r}")
