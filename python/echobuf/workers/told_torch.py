"""What `torch.utils.data.get_worker_info` says in a worker process."""

from __future__ import annotations

import contextlib
from typing import Any

from echobuf.workers.late_import import when_imported
from echobuf.workers.task import Task


def tell_torch(task: Task, seed: int) -> None:
    """Make it say what it says in the worker of a DataLoader, as soon as it is there.

    A `worker_init_fn` that was written for a DataLoader asks it for the worker's copy
    of the dataset; a dataset may import torch with its first example.

    Args:
        task: of the worker.
        seed: of torch in this worker.
    """

    def tell(worker: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):  # another version of torch
            worker._worker_info = worker.WorkerInfo(
                id=task.number, num_workers=task.count, seed=seed, dataset=task.dataset
            )

    when_imported("torch.utils.data._utils.worker", tell)
