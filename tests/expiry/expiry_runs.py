"""Runs of buffers whose passes leave out expired records, beside the slow reference."""

import json
from typing import Any

from expiry_reference import Expiring, Info

import echobuf
from helpers import SPEC, WAIT_S, expected_passes, ids_of, keyed


def reference(kwargs: dict[str, Any], n: int, epoch: int = 0) -> Expiring:
    """The reference of a buffer made with `kwargs`, fed with n examples."""
    return Expiring(
        expected_passes(kwargs, n, epoch),
        keyed(kwargs["seed"], epoch),
        kwargs["max_staleness"],
    )


def make(kwargs: dict[str, Any]) -> echobuf.EchoBuffer:
    """A buffer of the examples of `helpers`."""
    return echobuf.EchoBuffer(SPEC, with_info=True, **kwargs)


def infos_of(drawn: tuple[Any, echobuf.BatchInfo]) -> list[Info]:
    """The infos of a batch, one for each of its examples."""
    batch, info = drawn
    assert type(info) is echobuf.BatchInfo
    assert info.index.tolist() == ids_of(batch)
    return list(zip(info.index.tolist(), info.echo.tolist(), strict=True))


def next_infos(buffer: echobuf.EchoBuffer) -> list[Info] | None:
    """The infos of the next batch; None at the end."""
    try:
        return infos_of(buffer.next_batch(timeout=WAIT_S))
    except StopIteration:
        return None


def written(state: dict[str, Any]) -> dict[str, Any]:
    """The state as it comes back from a file."""
    return json.loads(json.dumps(state, allow_nan=False))
