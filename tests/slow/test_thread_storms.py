"""`tests/buffer/test_thread_storm.py` with more calls, and other orders of them."""

import pytest

from thread_storm import KINDS, Storm, serve_exactly


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_survives_many_calls_from_every_thread(kind, seed):
    storm = Storm(kind, seed=seed, calls=400, batches=600)
    with storm.buffer:
        storm.run()
        uses = serve_exactly(storm, 100)
    if kind == "auto":
        assert min(uses) >= 1
    else:
        assert uses == [2] * 100
