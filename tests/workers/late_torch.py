"""A dataset that imports torch with its first example; this module does not."""

from typing import Any

import numpy as np

from worker_data import Numbers


class LateTorch(Numbers):
    """A dataset whose examples hold torch's worker info, thread count and a draw."""

    def __getitem__(self, index: int) -> Any:
        import torch
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        numbers = [-1, -1, -1]
        if info is not None:
            is_dataset = info.dataset is self
            numbers = [info.id, torch.get_num_threads(), is_dataset]
        drawn = int(torch.randint(2**62, ()))
        return {"id": np.int64(index), "x": np.array([*numbers, drawn])}
