"""Runs of buffers whose passes leave records out, beside the slow reference."""

import json
from typing import Any

import numpy as np
from selection_reference import Info, Selective

import echobuf
from helpers import SPEC, WAIT_S, expected_passes, ids_of, keyed

LOSSES = [k / 8 for k in range(17)]
"""Sums of these are exact in any order."""


def reference(kwargs: dict[str, Any], n: int, epoch: int = 0) -> Selective:
    """The reference of a buffer made with `kwargs`, fed with n examples."""
    return Selective(
        expected_passes(kwargs, n, epoch),
        keyed(kwargs["seed"], epoch),
        kwargs["seed"],
        epoch,
        kwargs.get("thin", 0.5) if "reuse" in kwargs else None,
        kwargs.get("max_staleness"),
    )


def make(kwargs: dict[str, Any]) -> echobuf.EchoBuffer:
    """A buffer of the examples of `helpers`."""
    return echobuf.EchoBuffer(SPEC, with_info=True, **kwargs)


def infos_of(drawn: tuple[Any, echobuf.BatchInfo]) -> list[Info]:
    """The infos of a batch, one for each of its examples."""
    batch, info = drawn
    assert type(info) is echobuf.BatchInfo
    assert info.index.tolist() == ids_of(batch)
    assert info.weight.dtype == np.float32
    return list(
        zip(info.index.tolist(), info.echo.tolist(), info.weight.tolist(), strict=True)
    )


def rounded(infos: list[Info]) -> list[Info]:
    """The same with weights of 32 bits."""
    return [(index, echo, float(np.float32(w))) for index, echo, w in infos]


def next_infos(buffer: echobuf.EchoBuffer) -> list[Info] | None:
    """The infos of the next batch; None at the end."""
    try:
        return infos_of(buffer.next_batch(timeout=WAIT_S))
    except StopIteration:
        return None


def written(state: dict[str, Any]) -> dict[str, Any]:
    """The state as it comes back from a file."""
    return json.loads(json.dumps(state, allow_nan=False))
