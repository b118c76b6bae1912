"""`schedule_steps` and `schedule_epochs` count what a training loop takes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import echobuf
import echobuf.jax
import echobuf.torch
from echobuf import Field, OptionError, schedule_epochs, schedule_steps

FACTORS = [1, 1.25, 1.5, 2, 2.5, 3]
LOADERS = st.fixed_dictionaries(
    {
        "factor": st.sampled_from(FACTORS),
        "unit": st.sampled_from(["example", "batch"]),
        "drop_last": st.booleans(),
        "overlap_epochs": st.booleans(),
        "seed": st.integers(0, 3),
    }
)


def make(n, *, unit="example", kind=echobuf.EchoLoader, **kwargs):
    """A loader over n examples, read in batches of 3, in a window of 32."""
    if unit == "batch":
        return kind(DataLoader(range(n), 3), unit=unit, window=8, **kwargs)
    return kind(range(n), batch_size=3, window=32, **kwargs)


def take_steps(loader, epochs, accumulate, first):
    """Counts the optimizer steps of a loop that steps at the end of each epoch, too."""
    steps = 0
    for epoch in range(first, first + epochs):
        loader.set_epoch(epoch)
        batches = sum(1 for _ in loader)
        steps += -(-batches // accumulate)
    return steps


@given(LOADERS, st.integers(0, 40), st.integers(0, 4), st.integers(1, 3), st.data())
@settings(max_examples=60)
def test_the_steps_are_those_of_a_loop(arguments, n, epochs, accumulate, data):
    first = data.draw(st.integers(0, 3))
    with make(n, **arguments) as loader:
        told = schedule_steps(loader, epochs, accumulate=accumulate, first_epoch=first)
        assert told == take_steps(loader, epochs, accumulate, first)
        plain = schedule_steps(loader, epochs, accumulate=accumulate, fresh=True)
    with make(n, **{**arguments, "factor": 1}) as loader:
        assert plain == take_steps(loader, epochs, accumulate, 0)


@pytest.mark.parametrize("kind", [echobuf.torch.EchoLoader, echobuf.jax.EchoLoader])
def test_loaders_of_frameworks(kind):
    with make(10, kind=kind, factor=2.5) as loader:
        assert schedule_steps(loader, 3) == take_steps(loader, 3, 1, 0)


def test_fractional_epochs_differ_and_are_added_up():
    with make(4, factor=1.5, seed=1) as loader:
        each = [schedule_steps(loader, 1, first_epoch=n) for n in range(6)]
        assert len(set(each)) == 2
        assert schedule_steps(loader, 6) == sum(each)
        assert schedule_steps(loader, 6) != 6 * len(loader)


def test_a_resumed_run_has_the_same_schedule():
    with make(10, factor=1.5) as loader, make(10, factor=1.5) as resumed:
        told = schedule_steps(loader, 5)
        for epoch in range(3):
            loader.set_epoch(epoch)
            batches = iter(loader)
            next(batches)
        resumed.load_state_dict(loader.state_dict())
        assert schedule_steps(resumed, 5) == told
        next(iter(resumed))
        assert schedule_steps(resumed, 5) == told


@given(LOADERS, st.integers(3, 40), st.integers(0, 60), st.integers(1, 3))
@settings(max_examples=60)
def test_epochs_for_steps_are_the_fewest(arguments, n, steps, accumulate):
    with make(n, **arguments) as loader:
        told = schedule_epochs(loader, steps, accumulate=accumulate)
        within = schedule_steps(loader, told, accumulate=accumulate)
        assert within >= steps
        if told:
            less = schedule_steps(loader, told - 1, accumulate=accumulate)
            assert less < steps


def test_one_cycle_ends_with_the_last_step():
    with make(10, kind=echobuf.torch.EchoLoader, factor=2.5) as loader:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 1.0, total_steps=schedule_steps(loader, 3)
        )
        rates = []
        for epoch in range(3):
            loader.set_epoch(epoch)
            for _ in loader:
                rates += schedule.get_last_lr()
                optimizer.step()
                schedule.step()
        assert min(rates) == rates[-1] == pytest.approx(4e-6)
        with pytest.raises(ValueError, match="total steps"):
            schedule.step()


# ---- factor="auto", unknown lengths, wrong arguments


def test_auto_has_steps_without_echoing_only():
    with make(10, factor="auto") as loader:
        assert schedule_steps(loader, 3, fresh=True) == 3 * 4
        with pytest.raises(TypeError, match="max_batches"):
            schedule_steps(loader, 3)
        epochs = schedule_epochs(loader, 9)
        assert epochs == 3
        assert sum(sum(1 for _ in loader) for _ in range(epochs)) >= 9


def test_an_unknown_length_says_length():
    upstream = (number for number in range(10))
    with echobuf.EchoLoader(upstream, batch_size=3, window=32, factor=2) as loader:
        for count in (schedule_steps, schedule_epochs):
            with pytest.raises(TypeError, match="`length=`"):
                count(loader, 3)
        with pytest.raises(TypeError, match="`length=`"):
            schedule_steps(loader, 3, fresh=True)


def test_epochs_without_batches_take_no_steps():
    with make(0) as empty, pytest.raises(OptionError, match="no epoch of `loader`"):
        schedule_epochs(empty, 1)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"accumulate": 0}, "accumulate"),
        ({"first_epoch": -1}, "first_epoch"),
        ({"fresh": 1}, "fresh"),
    ],
)
def test_wrong_arguments(wrong, name):
    arguments = {"epochs": 1, **wrong}
    with make(10) as loader, pytest.raises(OptionError, match=f"`{name}`"):
        schedule_steps(loader, **arguments)


def test_numbers_of_numpy_give_ints():
    """`OneCycleLR` takes nothing else."""
    two, none = np.int64(2), np.int64(0)
    with make(10, factor=2) as loader:
        steps = [
            schedule_steps(loader, two, accumulate=two, first_epoch=none),
            schedule_steps(loader, two, accumulate=two, fresh=True),
        ]
        epochs = schedule_epochs(loader, two, accumulate=two, first_epoch=none)
        assert {type(each) for each in (*steps, epochs)} == {int}
        assert steps[0] == schedule_steps(loader, 2, accumulate=2)


def test_whole_factors_are_multiplied():
    loader = make(10, factor=2)  # 20 draws: 7 batches
    assert schedule_steps(loader, 10**30, accumulate=2) == 4 * 10**30
    assert schedule_epochs(loader, 10**30, accumulate=2) == 10**30 // 4


def test_wrong_loaders():
    spec = {"x": Field((), "float32")}
    with echobuf.EchoBuffer(spec, batch_size=1, window=4) as buffer:
        for count in (schedule_steps, schedule_epochs):
            with pytest.raises(OptionError, match="`loader` is a EchoBuffer"):
                count(buffer, 1)
    loader = make(10)
    loader.close()
    with pytest.raises(echobuf.ClosedError):
        schedule_steps(loader, 1)
