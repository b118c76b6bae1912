"""A line about a wait for worker processes says which items they make."""

import gc
import threading
from functools import partial

import echobuf
from echobuf import EchoLoader
from helpers import until
from progress_lines import AFTER_S, progress_lines
from worker_data import KWARGS, Numbers, Troubled, workers_alive

N, HELD = 40, 21


def make_once_there_is(path):
    until(path.exists)
    return Numbers(N)[HELD]


def test_the_items_that_workers_make(tmp_path):
    made = tmp_path / "made"
    data = Troubled(N, partial(make_once_there_is, made), at=HELD)
    with progress_lines() as lines:
        loader = EchoLoader(data, num_workers=1, **{**KWARGS, "factor": 1})
        batches = iter(loader)
        drawn = [next(batches) for _ in range(4)]  # of the first 16 examples
        lines.texts.clear()  # about the start of the worker
        release = threading.Thread(target=lambda: (lines.wait(), made.touch()))
        release.start()
        echobuf.set_progress(AFTER_S)  # the next line is not held back by the last
        drawn += list(batches)
        release.join()
    assert len(drawn) == 10
    assert "for a batch: 21 of 32 fresh examples are there" in lines.texts[0]
    assert "1 of 1 workers are in item 21" in lines.texts[0]
    # The report keeps nothing alive, in cycles of references either.
    gc.disable()
    try:
        del loader, batches
        until(lambda: not workers_alive())
    finally:
        gc.enable()
