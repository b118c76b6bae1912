"""States have the same keys at any time, as torch.distributed.checkpoint needs it."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

import torch.distributed.checkpoint as dcp

import echobuf
import echobuf.torch
from echobuf.transforms import RandomHorizontalFlip
from test_loader_stateful import Tape

pytestmark = [
    pytest.mark.usefixtures("no_leaked_threads"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]

SIZE = 5
KWARGS = {"batch_size": SIZE, "window": 20, "factor": 2}
IMAGES = np.arange(40 * 12, dtype=np.float32).reshape(40, 2, 2, 3)
KINDS = {
    "examples": lambda: echobuf.EchoLoader(range(40), **KWARGS),
    "torch": lambda: echobuf.torch.EchoLoader(range(40), **KWARGS),
    "auto": lambda: echobuf.EchoLoader(range(40), **{**KWARGS, "factor": "auto"}),
    "upstream with a state": lambda: echobuf.EchoLoader(Tape(40), **KWARGS),
    "sizes of the first batch": lambda: echobuf.EchoLoader(
        IMAGES.reshape(8, 5, 2, 2, 3), batched=True, factor=2
    ),
    "transform": lambda: echobuf.EchoLoader(
        IMAGES, transform=[RandomHorizontalFlip()], **KWARGS
    ),
}
AFTER = {"fresh": 0, "first": 1, "middle": 7, "end": None}


def taken(loader, after):
    """The loader after so many batches, or the whole epoch, and its batches."""
    if after == 0:
        return None
    batches = iter(loader)
    for _ in range(after) if after else batches:
        if after:
            next(batches)
    return batches


def shape(state):
    return {key: type(value) for key, value in state.items()}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["object", "state"])
def test_a_checkpoint_goes_on_in_a_fresh_object(kind, after, form, tmp_path):
    loader, again = KINDS[kind](), KINDS[kind]()
    batches = taken(loader, AFTER[after])
    state = loader.state_dict()
    assert shape(state) == shape(again.state_dict())
    if form == "object":
        dcp.save({"loader": loader}, checkpoint_id=tmp_path, no_dist=True)
        dcp.load({"loader": again}, checkpoint_id=tmp_path, no_dist=True)
    else:
        dcp.save({"loader": state}, checkpoint_id=tmp_path, no_dist=True)
        loaded = {"loader": again.state_dict()}
        dcp.load(loaded, checkpoint_id=tmp_path, no_dist=True)
        assert loaded["loader"] == state
        again.load_state_dict(loaded["loader"])
        assert again.state_dict() == state
    if kind != "auto":
        rest = loader if after in ("fresh", "end") else batches
        assert [*map(repr, again)] == [*map(repr, rest)]
    loader.close()
    again.close()


def test_a_buffer(tmp_path):
    first, second = (echobuf.EchoBuffer(np.int64(0), **KWARGS) for _ in range(2))
    numbers = np.arange(20)
    first.put_batch(numbers)
    first.next_batch()
    dcp.save({"buffer": first}, checkpoint_id=tmp_path, no_dist=True)
    dcp.load({"buffer": second}, checkpoint_id=tmp_path, no_dist=True)
    second.put_batch(numbers[second.state_dict()["fresh_offset"] :])
    assert (second.next_batch() == first.next_batch()).all()


BEFORE = (  # a state as it was written while its parts were dicts
    '{"format": "echobuf-state", "version": 1, "epoch": 0, "fresh_offset": 40, '
    '"position": {"pass": 4, "offset": 20, "draws": 90, "resident_end": 50, '
    '"upstream_length": null, "pass_done": true}, "arguments": {"spec": "int64[]", '
    '"batch_size": 10, "window": 20, "factor": "2", "max_factor": null, '
    '"unit": "example", "seed": 0, "drop_last": false, "transform": {}, '
    '"transform_numbers": {}}, "checksum": 2607022996}'
)


def test_a_state_from_before_goes_on():
    def make():
        return echobuf.EchoLoader(range(100), batch_size=10, window=20, factor=2)

    again = make()
    again.load_state_dict(json.loads(BEFORE))
    assert [*map(repr, again)] == [*map(repr, make())][9:]
