"""What `torch.utils.data.get_worker_info` says in a worker process."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from echobuf.workers.task import Task


def tell_torch(task: Task) -> None:
    """Says what it says in the worker of a DataLoader, if that module is in use.

    A `worker_init_fn` that was written for a DataLoader asks it for the worker's copy
    of the dataset. To be called after torch was seeded.
    """
    data: Any = sys.modules.get("torch.utils.data")
    if data is None:
        return
    with contextlib.suppress(AttributeError, TypeError):  # of another version of torch
        worker = data._utils.worker
        worker._worker_info = worker.WorkerInfo(
            id=task.number,
            num_workers=task.count,
            seed=sys.modules["torch"].initial_seed(),
            dataset=task.dataset,
        )
