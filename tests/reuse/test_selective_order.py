"""Passes with `reuse="loss"` serve what the slow reference says."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selective_runs import (
    LOSSES,
    infos_of,
    make,
    next_infos,
    reference,
    rounded,
    written,
)

from helpers import PUT_SIZES, WAIT_S, Worker, feed, options

pytestmark = [
    pytest.mark.contract,
    pytest.mark.filterwarnings("ignore:`reuse` is 'loss', and no loss was reported"),
]

THIN = st.sampled_from([0.0, 0.25, 0.5, 0.9])


def report(buffer, batch, reports):
    """Reports losses of a batch, or does not; those that were reported."""
    losses = next(reports)
    if losses is None:
        return [], []
    indices = [index for index, _, _ in batch]
    given = [losses[index % len(losses)] for index in indices]
    info = np.array(indices)
    buffer.report(type("Info", (), {"index": info}), given)
    return indices, given


def cycled(draw):
    """Which losses are reported after each batch; None: none."""
    one = st.none() | st.lists(st.sampled_from(LOSSES), min_size=1, max_size=7)
    return draw(st.lists(one, min_size=1, max_size=5))


@settings(deadline=None, max_examples=150)
@given(options(), THIN, st.integers(0, 120), PUT_SIZES, st.data())
def test_draws_uses_and_weights_are_those_of_the_reference(
    kwargs, thin, n, sizes, data
):
    kwargs |= {"reuse": "loss", "thin": thin}
    expected = reference(kwargs, n)
    reports = itertools.cycle([[1.0], *cycled(data.draw)])
    size = kwargs["batch_size"]
    with make(kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), sizes)
        while True:
            due = rounded(expected.batch(size))
            if not due or (kwargs["drop_last"] and len(due) < size):
                break
            assert next_infos(buffer) == due
            expected.report(*report(buffer, due, reports))
        assert next_infos(buffer) is None
        producer.result()
        assert buffer.state_dict()["epoch"] == 1


@settings(deadline=None, max_examples=60)
@given(options(), THIN, st.integers(1, 80), st.data())
def test_a_state_of_any_batch_goes_on_with_the_next(kwargs, thin, n, data):
    kwargs |= {"reuse": "loss", "thin": thin}
    losses = [[1.0], *cycled(data.draw)]
    after = data.draw(st.integers(0, 40))
    reports = itertools.cycle(losses)
    with make(kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), [9])
        for _ in range(after):
            batch = next_infos(buffer)
            if batch is None:
                break
            report(buffer, batch, reports)
        state = written(buffer.state_dict())
        epoch = state["epoch"]
        with make(kwargs) as second:
            second.load_state_dict(state)
            assert written(second.state_dict()) == state
            again = Worker(feed, second, range(state["fresh_offset"], n), [7])
            if epoch:
                buffer.reset()
                producer = Worker(feed, buffer, range(n), [5])
            for losses_of in itertools.cycle(losses):
                batch, other = next_infos(buffer), next_infos(second)
                assert batch == other
                if batch is None:
                    break
                for each in (buffer, second):
                    report(each, batch, iter([losses_of]))
            assert buffer.state_dict() == second.state_dict()
            again.result()
        producer.result()


def test_without_reports_the_draws_are_those_of_plain_echoing():
    kwargs = {"window": 24, "factor": 3, "batch_size": 5, "seed": 7}
    runs = []
    for more in ({}, {"reuse": "loss"}):
        with make({**kwargs, **more}) as buffer:
            producer = Worker(feed, buffer, range(60), [11])
            if more:
                with pytest.warns(UserWarning, match=r"no loss was reported"):
                    runs.append([infos_of(drawn) for drawn in buffer])
            else:
                runs.append([infos_of(drawn) for drawn in buffer])
            producer.result()
    assert runs[0] == runs[1]


def test_a_batch_of_more_passes_than_there_is_room_for():
    # Nearly all is left out: a batch is of many passes, and each waits for a segment.
    kwargs = {"window": 8, "factor": 4, "batch_size": 8, "seed": 1}
    kwargs |= {"reuse": "loss", "thin": 0.99}
    expected = reference({**kwargs, "drop_last": False}, 400)
    with make(kwargs) as buffer:
        producer = Worker(feed, buffer, range(400), [50])
        while due := rounded(expected.batch(8)):
            assert next_infos(buffer) == due
            indices = [index for index, _, _ in due]
            losses = [float(index % 16 == 0) for index in indices]
            buffer.report(
                type("Info", (), {"index": np.array(indices)}), np.array(losses)
            )
            expected.report(indices, losses)
        assert next_infos(buffer) is None
        producer.result()


def test_it_goes_on_in_the_next_epoch_without_the_losses_of_the_last():
    kwargs = {"window": 12, "factor": 3, "batch_size": 4, "seed": 5, "reuse": "loss"}
    with make(kwargs) as buffer:
        for epoch in range(3):
            expected = reference(kwargs, 30, epoch)
            producer = Worker(feed, buffer, range(30), [30])
            while due := rounded(expected.batch(4)):
                batch, info = buffer.next_batch(timeout=WAIT_S)
                assert infos_of((batch, info)) == due
                losses = (np.asarray(info.index.tolist()) % 5).astype(np.float32)
                buffer.report(info, losses)
                expected.report(info.index.tolist(), losses.tolist())
            producer.result()
            buffer.reset()
