"""Hugging Face Accelerate trains with the loader, which `prepare` leaves as it is."""

import pytest

pytest.importorskip("accelerate")

import gc
import json
import threading
from itertools import chain
from pathlib import Path

from accelerate import Accelerator, skip_first_batches
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import DataLoader, IterableDataset

import echobuf
import echobuf.torch
import torchrun
from echobuf.accelerate import EchoLoader
from helpers import WAIT_S, Worker
from leaked_threads import no_feeder
from on_accelerate import Run, expected, make_loader
from opened_states import opened
from plain_loop import EXAMPLES, STEPS


@pytest.fixture(autouse=True)
def _anew():
    yield
    for shared in (AcceleratorState, GradientState, PartialState):
        shared._reset_state()  # noqa: SLF001 - Accelerate's
    gc.collect()
    no_feeder()


KINDS = [EchoLoader, echobuf.torch.EchoLoader]


# ---- epochs and length


@pytest.mark.parametrize("kind", KINDS)
def test_epochs_are_those_of_a_plain_loop(kind):
    run = Run(make_loader(kind=kind))
    assert len(run.loader) == STEPS
    run.train(range(3))
    assert run.trained == expected(3)
    orders = [str(run.trained[n * STEPS : (n + 1) * STEPS]) for n in range(3)]
    assert len(set(orders)) == 3


def test_objects_come_with_their_examples():
    upstream = [{"id": number, "name": str(number)} for number in range(EXAMPLES)]
    loader = EchoLoader(upstream, batch_size=4, window=16, factor=2)
    for batch in Accelerator(cpu=True).prepare(loader):
        assert [*map(int, batch["name"])] == batch["id"].tolist()


def test_the_length_is_that_of_the_epoch_until_the_loop_has_had_its_last_batch():
    more = {"batch_size": 1, "window": 32, "factor": 1.5}  # 4 or 8 batches, in turns
    loader = EchoLoader(range(4), **more)
    plain = echobuf.torch.EchoLoader(range(4), **more)
    lengths = []
    for number in range(3):
        plain.set_epoch(number)
        lengths.append(len(plain))
        assert [len(loader)] + [len(loader) for _ in loader] == [lengths[-1]] * (
            lengths[-1] + 1
        )
    assert lengths in ([4, 8, 4], [8, 4, 8])
    for _ in loader:
        if loader.end_of_dataloader:
            loader.set_epoch(0)
            assert len(loader) == lengths[1]
    assert len(loader) == lengths[0]


def test_a_length_that_is_not_known():
    class Unsized(IterableDataset):
        def __iter__(self):
            return iter(range(EXAMPLES))

    for factor in (2, "auto"):
        upstream = DataLoader(Unsized(), batch_size=5)
        run = Run(EchoLoader(upstream, window=20, factor=factor))
        with pytest.raises(TypeError):
            len(run.loader)
        run.train(range(2))
        assert {each for batch in run.trained for each in batch} == set(range(EXAMPLES))
        assert run.loader.stats().fresh == EXAMPLES


def test_the_device_is_that_of_the_loader():
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(make_loader(device=accelerator.device))
    for batch in loader:
        assert batch.device == accelerator.device
        assert batch.to(accelerator.device) is batch


@pytest.mark.parametrize("upstream", [[], range(3), range(EXAMPLES)])
def test_the_last_batch_is_known(upstream):
    loader = EchoLoader(upstream, batch_size=4, window=16, factor=1)
    state = Accelerator(cpu=True).gradient_state
    for _ in range(2):
        ends = [state.end_of_dataloader for _ in loader]
        assert ends == [False] * (len(ends) - 1) + [True] * bool(ends)
        assert not state.in_dataloader


# ---- accumulation of gradients


def test_gradients_are_stepped_with_at_the_end_of_an_epoch():
    run = Run(make_loader(), accumulate=6)
    run.train(range(2))
    assert run.stepped == [6, 12, 16, 22, 28, 32]


def test_a_plain_loader_goes_on_accumulating():
    """As any iterable that is no DataLoader; docs/trainers.md says so."""
    run = Run(make_loader(kind=echobuf.torch.EchoLoader), accumulate=6)
    run.train(range(2))
    assert run.stepped == [6, 12, 18, 24, 30]


def test_a_loop_that_was_left_says_nothing_about_the_next():
    run = Run(make_loader(), accumulate=6)
    for _ in run.loader:
        break
    assert not run.accelerator.gradient_state.in_dataloader
    kept = iter(run.loader)
    next(kept)
    run.accelerator.step = 0
    for batch in run.loader:
        run.step(batch)
        kept = None  # which is no end of this one
    assert run.stepped == [6, 12, 16]


# ---- checkpoints


CUTS = [1, 7, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS, 3 * STEPS - 1, 3 * STEPS]


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"factor": 1.6, "prefetch": 2, "n": 50},
        {"factor": 1, "n": 80},
        {"overlap_epochs": True},
        {"drop_last": True, "n": 43},
        {"kind": echobuf.torch.EchoLoader},
    ],
    ids=["ahead", "fraction", "one", "overlap", "cut", "plain"],
)
def test_a_run_goes_on_exactly(tmp_path, kwargs):
    run = Run(make_loader(**kwargs))
    run.train(range(3), tmp_path, CUTS)
    for step in CUTS:
        again = Run(make_loader(**kwargs))
        again.go_on(tmp_path / str(step), 3)
        assert again.trained == run.trained[step:], step


def test_a_state_is_that_of_the_batch_that_the_loop_has():
    loader, plain = make_loader(), make_loader(kind=echobuf.torch.EchoLoader)
    for epoch in range(2):
        for number, _ in enumerate(zip(loader, plain, strict=True), start=1):
            state, other = loader.state_dict(), plain.state_dict()
            assert json.loads(json.dumps(state)) == state
            if number < STEPS:
                assert state["epoch"] == other["epoch"] == epoch
                draws = [opened(each)["position"]["draws"] for each in (state, other)]
                assert draws[0] == draws[1]
        assert state["epoch"] == epoch + 1
        assert state["position"] == ""


def test_a_state_taken_after_the_loop_was_left():
    loader, whole = make_loader(), [batch.tolist() for batch in make_loader()]
    for number, _ in enumerate(loader):
        if number == 4:
            break
    again = make_loader()
    again.load_state_dict(loader.state_dict())
    assert [batch.tolist() for batch in again] == whole[5:]
    loader.set_epoch(1)
    assert loader.state_dict()["position"] == ""


@pytest.mark.parametrize("kind", [EchoLoader, echobuf.torch.EchoLoader])
def test_batches_are_not_skipped_in_a_loader_without_echoes(kind):
    upstream = DataLoader(range(8), batch_size=2, num_workers=1)
    loader = kind(upstream, window=4, factor=2)
    skipping = skip_first_batches(loader, 1)
    with pytest.raises(echobuf.OptionError, match=r"load_state_dict\(state\)"):
        next(iter(skipping))


def test_a_state_is_given_up_for_another():
    loader = make_loader()
    start = loader.state_dict()
    for _ in loader:
        break
    loader.load_state_dict(start)
    assert loader.state_dict() == start


# ---- the same loader twice, and what is not for it


def test_one_loader_for_training_and_validation_is_an_error():
    run = Run(make_loader())
    training = iter(run.loader)
    next(training)
    next(iter(run.loader))
    with pytest.raises(echobuf.ClosedError, match="such as training and validation"):
        next(training)


# ---- several processes


def test_two_processes(tmp_path):
    program = Path(__file__).with_name("accelerate_ranks.py")
    torchrun.run(program, tmp_path, "accelerate")
    got = [torchrun.result(tmp_path, rank) for rank in range(2)]
    for rank in range(2):
        assert got[rank]["trained"] == expected(2, rank=rank, ranks=2)
        assert got[rank]["stepped"] == [3, 6, 8, 11, 14, 16]
        for step, rest in got[rank]["rests"].items():
            assert rest == got[rank]["trained"][int(step) :]
        alone = expected(1, rank=rank, ranks=2, n=EXAMPLES + 8 * rank)
        assert got[rank]["padded"] == alone + [alone[-1]] * (10 - len(alone))
        assert got[rank]["again"] == got[rank]["padded"][9:]
    assert got[0]["weights"] == got[1]["weights"]
    assert got[0]["gathered"] == got[1]["gathered"]
    assert sorted(chain(*got[0]["gathered"])) == sorted(2 * list(range(EXAMPLES)))


# ---- several threads


class Slow:
    """An upstream whose thread gives way at each item, so that draws overlap."""

    def __init__(self, n, error=None):
        self.n, self.error = n, error

    def __iter__(self):
        for number in range(self.n):
            threading.Event().wait(1e-4)
            yield number
        if self.error is not None:
            raise self.error


def draw_from_threads(loader, count=4):
    """Return what each thread got from one iterator, and the error that ended it."""
    iterator, start = iter(loader), threading.Barrier(count)

    def draw():
        got = []
        start.wait(WAIT_S)
        try:
            got.extend(batch.tolist() for batch in iterator)
        except echobuf.EchobufError as error:
            return got, error
        return got, None

    return [worker.result() for worker in [Worker(draw) for _ in range(count)]]


def test_threads_share_the_batches_of_one_iterator():
    loader = EchoLoader(Slow(EXAMPLES), batch_size=4, window=16, factor=2)
    for epoch in range(2):
        results = draw_from_threads(loader)
        assert [error for _, error in results] == [None] * 4
        got = chain.from_iterable(
            chain.from_iterable(batches for batches, _ in results)
        )
        assert sorted(got) == sorted(2 * list(range(EXAMPLES)))
        assert loader.state_dict()["epoch"] == epoch + 1


def test_all_threads_get_the_error_that_ends_an_epoch():
    loader = EchoLoader(
        Slow(EXAMPLES, OSError("the disk is gone")), batch_size=4, window=16, factor=2
    )
    for _, error in draw_from_threads(loader):
        assert isinstance(error, echobuf.UpstreamError)
        assert isinstance(error.__cause__, OSError)
