"""With `prefetch` batches come in memory that was used before."""

import resource

import numpy as np
import pytest

import echobuf

pytestmark = pytest.mark.host
PAGE, SIZE = resource.getpagesize(), 1 << 15


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_batches_take_no_new_pages_once_some_came(prefetch):
    buffer = echobuf.EchoBuffer(
        echobuf.Field((SIZE,), np.uint8),
        batch_size=32,
        window=1024,
        factor=1000,
        prefetch=prefetch,
    )
    buffer.put_batch(np.zeros((1024, SIZE), np.uint8))
    buffer.close()

    def faults_of(count):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for number in range(count):
            batch = buffer.next_batch()  # the last one is held meanwhile
            if number % 7 == 0:  # what was made ahead piles up, and is handed out
                held = [batch, *(buffer.next_batch() for _ in range(prefetch))]
                del held
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults_of(100)
    most = 20 * 32 * SIZE // PAGE  # the pages of twenty batches
    assert faults_of(400) < most
