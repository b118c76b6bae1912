"""torchdata's StatefulDataLoader, and others that keep its protocol."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

import echobuf
import echobuf.torch
from opened_states import opened
from upstream_checks import SET_VITAL, N, check_all, run

stateful = pytest.importorskip("torchdata.stateful_dataloader")
samplers = pytest.importorskip("torchdata.stateful_dataloader.sampler")
tn = pytest.importorskip("torchdata.nodes")

pytestmark = [pytest.mark.usefixtures("no_leaked_threads"), SET_VITAL]


class Data(torch.utils.data.Dataset):
    """Counts what is read of it, in workers, too."""

    def __init__(self, n=N):
        self.reads = torch.zeros(n, dtype=torch.int32).share_memory_()

    def __len__(self):
        return len(self.reads)

    def __getitem__(self, number):
        self.reads[number] += 1
        return {"id": number, "x": np.full(3, number, np.float32)}


def shuffled(data, workers, **more):
    return stateful.StatefulDataLoader(
        data, batch_size=6, shuffle=True, num_workers=workers, **more
    )


def with_generator(data, workers):
    return shuffled(data, workers, generator=torch.Generator().manual_seed(3))


def distributed(data, workers):
    sampler = samplers.StatefulDistributedSampler(data, 1, 0, seed=3)
    return stateful.StatefulDataLoader(
        data, batch_size=6, sampler=sampler, num_workers=workers
    )


def rarely(data, workers):
    return shuffled(data, workers, snapshot_every_n_steps=4)


KINDS = [shuffled, with_generator, distributed, rarely]


def make(upstream, **more):
    return echobuf.torch.EchoLoader(upstream, **{"window": 48, "factor": 2, **more})


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


def state_after(count, loader):
    """The state of a loader that was left after so many batches."""
    epoch = iter(loader)
    for _ in range(count):
        next(epoch)
    return loader.state_dict()


def test_the_page():
    data = Data()
    check_all(lambda: run("StatefulDataLoader", {"dataset": data})["loader"], "id")


@pytest.mark.parametrize(
    ("workers", "cuts"), [(0, (0, 1, 7, 30, 60, 99, 100, 130)), (2, (0, 99, 130))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_at_any_boundary_goes_on_exactly(kind, workers, cuts):
    """Though nobody says what the chance of the first run was."""
    torch.manual_seed(1)
    loader = make(kind(Data(), workers))
    saved, served = {}, []
    for _ in range(2):
        iter(loader)
        saved[len(served)] = json.loads(json.dumps(loader.state_dict()))
        for batch in loader:
            served += ids([batch])
            if len(served) % 100:
                saved[len(served)] = json.loads(json.dumps(loader.state_dict()))
    for cut in cuts:
        torch.manual_seed(cut + 77)
        data, state = Data(), saved[cut]
        resumed = make(kind(data, workers))
        resumed.load_state_dict(state)
        first = 100 - cut % 100
        assert ids(resumed) == served[cut : cut + first]
        check_reads(data, state)
        exact = cut < 100 and not (kind is with_generator and workers == 0)
        rest = ids(resumed)
        if exact:
            assert rest == served[100:]
        assert Counter(i for batch in rest for i in batch) == Counter(2 * [*range(N)])


def check_reads(data, state):
    """No example that is not needed was read, apart from those of its batch."""
    needed = N - state["fresh_offset"]
    assert needed <= int(data.reads.sum()) < needed + 6
    assert int(data.reads.max()) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_the_end_goes_on_with_the_next_epoch(kind, workers):
    torch.manual_seed(1)
    loader = make(kind(Data(), workers))
    list(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    assert opened(state)["upstream"]["offset"] is None
    expected = ids(loader)
    torch.manual_seed(2)
    data = Data()
    resumed = make(kind(data, workers))
    resumed.load_state_dict(state)
    rest = ids(resumed)
    assert int(data.reads.min()) == 1
    if kind is not rarely:  # which reads again what came after its last snapshot
        assert int(data.reads.max()) == 1
    if not (kind is with_generator and workers == 0):
        assert rest == expected


def test_set_epoch_after_load_begins_at_the_start():
    state = state_after(60, make(distributed(Data(), 0)))
    whole = make(distributed(Data(), 0))
    whole.set_epoch(4)
    data = Data()
    resumed = make(distributed(data, 0))
    resumed.load_state_dict(state)
    resumed.set_epoch(4)
    assert ids(resumed) == ids(whole)
    assert int(data.reads.min()) == 1


def test_other_workers_are_refused_with_what_to_do():
    state = state_after(60, make(shuffled(Data(), 0)))
    resumed = make(shuffled(Data(), 2))
    resumed.load_state_dict(state)
    with pytest.raises(echobuf.StateError, match="with as many workers"):
        iter(resumed)


def test_a_small_state():
    state = state_after(1, make(shuffled(Data(), 0)))
    assert len(json.dumps(state)) < 20_000


# ---- nodes


def node(data):
    sampler = torch.utils.data.DistributedSampler(data, 1, 0, seed=1)
    wrapped = tn.MapStyleWrapper(data, sampler)
    return tn.Loader(tn.Prefetcher(wrapped, 4))


@pytest.mark.parametrize("cut", [0, 1, 40, 99, 100])
def test_nodes(cut):
    kwargs = {"batch_size": 6, "window": 48, "factor": 2}
    loader = echobuf.EchoLoader(node(Data()), **kwargs)
    epoch = iter(loader)
    got = [next(epoch)["id"].tolist() for _ in range(cut)]
    state = json.loads(json.dumps(loader.state_dict()))
    expected = ids(epoch) or ids(loader)
    data = Data()
    resumed = echobuf.EchoLoader(node(data), **kwargs)
    resumed.load_state_dict(state)
    assert ids(resumed) == expected
    assert len(got) == cut
    assert int(data.reads.sum()) == N - state["fresh_offset"]
    assert int(data.reads.max()) == 1
