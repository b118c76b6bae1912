"""Arrays on a device that batches are drawn into."""

import sys
import time

import numpy as np

import echobuf
from echobuf.cuda.out import DeviceOut
from echobuf.tree import make_spec
from helpers import Worker


class OnDevice:
    """Says where it lies as arrays on a device do."""

    def __init__(self, array):
        self.array = array
        self.dtype = array.dtype
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


def test_threads_that_draw_into_their_arrays_get_their_addresses():
    out = DeviceOut(0, make_spec(echobuf.Field((4,), np.float32)), (8,))

    def look():
        mine = OnDevice(np.zeros((8, 4), np.float32))
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            assert out.find([mine]) == ([mine.array.ctypes.data], True)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [Worker(look) for _ in range(4)]
        for worker in workers:
            worker.result()
    finally:
        sys.setswitchinterval(before)
