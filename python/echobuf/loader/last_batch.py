"""The position after a batch that may be the last one of its epoch."""

from __future__ import annotations

import contextlib
import time

from echobuf._engine.engine import Engine
from echobuf.errors import EchobufError
from echobuf.state import State, start_of

_PATIENCE_S = 5.0
_SLICE_S = 0.002


def locate(engine: Engine, count: int | None) -> State:
    """Return the position of the batches handed out, once upstream has said its end.

    Where all that was put has been served, only upstream can say if the epoch is over.
    The next draw would wait for that, too; but it is not waited for without an end.

    Args:
        engine: of the buffer.
        count: fresh examples that an epoch has, where that is known; as the buffer
            counts them.
    """
    options = engine.options
    # Without echoes as many draws are left as records; fewer than a batch may go.
    goes = options.drop_last and options.ratio == (1, 1) and not options.whole_batches
    least = options.batch_size if goes else 1
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        is_known = True
        with contextlib.suppress(EchobufError):  # upstream has failed, or was stopped
            is_known = engine.ready()
        at = engine.position()
        (fresh, *_), *_ = engine.raw_stats()
        place = at["position"]
        if place is None:
            return at
        used = at["fresh_offset"] if least == 1 else place["draws"]
        if fresh - used >= least or (count is not None and count - used >= least):
            return at
        if is_known or time.monotonic() > deadline:
            break
        time.sleep(_SLICE_S)
    return at if count is None else start_of(at["epoch"] + 1)
