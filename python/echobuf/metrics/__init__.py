"""What a loader or a buffer does, written elsewhere while it does it: `Monitor`.

Each name is imported when it is first wanted, and the package that it writes to when it
is made.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echobuf.metrics.monitor import Monitor
    from echobuf.metrics.progress import Progress
    from echobuf.metrics.prometheus import Prometheus
    from echobuf.metrics.sink import Sink, metrics_of
    from echobuf.metrics.tensorboard import TensorBoard
    from echobuf.metrics.wandb import WandB

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
    "Progress": "progress",
    "Prometheus": "prometheus",
    "Sink": "sink",
    "TensorBoard": "tensorboard",
    "WandB": "wandb",
    "metrics_of": "sink",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"echobuf.metrics.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'echobuf.metrics' has no attribute {name!r}")
