"""A dataset for worker processes, in a module that they import."""

import time

import numpy as np


class Slow:
    """Each example takes so many seconds."""

    def __init__(self, count, seconds):
        self._count = count
        self._seconds = seconds

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        time.sleep(self._seconds)
        return np.full(3, index)
