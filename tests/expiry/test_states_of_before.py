"""States of before `reuse="loss"` went: they load, and those that used it say so.

`recorded_states.json` was recorded with the last version that had it, from buffers of
int64 ids with `with_info=True`, all of which were put at once, `version=ids // 5`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, EchoLoader, StateError
from opened_states import opened, resealed

RECORDED = json.loads((Path(__file__).parent / "recorded_states.json").read_text())


@pytest.mark.parametrize("case", ["fixed", "fraction", "auto"])
def test_states_with_versions_go_on_as_they_would_have(case):
    recorded = RECORDED[case]
    state = recorded["state"]
    ids = np.arange(state["fresh_offset"], recorded["examples"])
    buffer = EchoBuffer(np.int64(0), with_info=True, **recorded["arguments"])
    with buffer:
        buffer.load_state_dict(state)
        buffer.put_batch(ids, version=ids // 5)
        buffer.close()
        rest = [[batch.tolist(), info.echo.tolist()] for batch, info in buffer]
        assert rest == recorded["rest"]
        assert buffer.stats().expired == recorded["expired"]


@pytest.mark.parametrize("make", [EchoBuffer, EchoLoader])
def test_states_that_used_losses_are_refused(make):
    arguments = {**RECORDED["losses"]["arguments"], "with_info": True}
    assert arguments.pop("reuse") == "loss"
    source = np.int64(0) if make is EchoBuffer else range(16)
    holder = make(source, **arguments)
    with pytest.raises(StateError, match=r"taken with `reuse` 'loss', which is gone"):
        holder.load_state_dict(RECORDED["losses"]["state"])


def test_arguments_that_are_gone_are_passed_over_at_their_defaults():
    def make():
        return EchoBuffer(np.int64(0), batch_size=2, window=8)

    with make() as buffer, make() as again:
        buffer.put_batch(np.arange(8))
        buffer.next_batch()
        state = opened(buffer.state_dict())
        state["arguments"] |= {"reuse": None, "thin": 0.5}
        again.load_state_dict(resealed(state))
        again.put_batch(np.arange(8))
        assert (again.next_batch() == buffer.next_batch()).all()


def test_a_selection_that_is_damaged_is_refused():
    recorded = RECORDED["fixed"]
    for damage in ({"marks": "!"}, {"marks": 3}, {"first": 5}, {"newest": -2}):
        state = opened(recorded["state"])
        state["position"]["selection"] |= damage
        with (
            EchoBuffer(np.int64(0), with_info=True, **recorded["arguments"]) as buffer,
            pytest.raises(echobuf.StateError, match="`state` is damaged"),
        ):
            buffer.load_state_dict(resealed(state))
