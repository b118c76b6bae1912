"""The module that docs/workers.md imports."""

import numpy as np


class Photos:
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return {"photo": np.full((8, 8, 3), index % 256, np.uint8), "id": index}
