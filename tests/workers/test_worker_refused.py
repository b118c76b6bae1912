"""Arguments that loaders with workers refuse."""

import errno
import multiprocessing
from multiprocessing.context import SpawnContext

import pytest

import echobuf
from leaked_threads import no_feeder
from worker_data import Numbers, load


class Unsendable(Numbers):
    def __init__(self):
        super().__init__(20)
        self.function = lambda: None


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"num_workers": -1}, "`num_workers` is -1"),
        ({"num_workers": True}, "`num_workers` is True"),
        ({"max_restarts": -1}, "`max_restarts` is -1"),
        ({"multiprocessing_context": "fork"}, "`multiprocessing_context` is 'fork'"),
        ({"multiprocessing_context": 3}, "`multiprocessing_context` is 3"),
        ({"worker_init_fn": 3}, "`worker_init_fn` is 3"),
        ({"unit": "batch", "batch_size": None}, "unit='batch'"),
        ({"batched": True}, "`batched` is True"),
        ({"sampler": 3}, "`sampler` is a int"),
    ],
)
def test_arguments(kwargs, said):
    with pytest.raises(echobuf.OptionError, match=said):
        load(Numbers(20), **{"workers": 2, **_renamed(kwargs)})


def _renamed(kwargs):
    return {"workers" if k == "num_workers" else k: v for k, v in kwargs.items()}


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        ((number for number in range(3)), "must be a map-style dataset"),
        ({1, 2}, "must be a map-style dataset"),
    ],
)
def test_upstreams_without_examples_by_number(upstream, said):
    with pytest.raises(echobuf.OptionError, match=said):
        load(upstream, 1)


def test_data_of_ray():
    from echobuf.loader.source import RayBatches

    with pytest.raises(echobuf.OptionError, match="is data of Ray, which has workers"):
        load(RayBatches(object(), 8), 1)


def test_a_data_loader():
    data = pytest.importorskip("torch.utils.data")

    with pytest.raises(echobuf.OptionError, match="pass its dataset"):
        load(data.DataLoader(range(8)), 1)


def test_a_dataset_that_cannot_be_pickled_is_refused():
    loader = load(Unsendable(), 2)
    for _ in range(2):
        with pytest.raises(echobuf.OptionError, match="cannot be sent to worker"):
            iter(loader)
    del loader
    no_feeder()


class Unstartable(SpawnContext):
    """A context that keeps its pipes, and starts no process."""

    def __init__(self):
        self.pipes = []

    def Pipe(self):
        self.pipes += super().Pipe()
        return self.pipes[-2:]

    def Process(self, **kwargs):
        return self

    def start(self):
        raise OSError(errno.EIO, "no process")


def test_a_process_that_is_not_started_leaves_no_pipe_though_the_error_is_kept():
    context = Unstartable()
    with pytest.raises(OSError, match="no process") as caught:
        iter(load(Numbers(20), 1, multiprocessing_context=context))
    assert [pipe.closed for pipe in context.pipes] == [True, True]
    del caught


def test_a_window_that_is_too_large():
    with pytest.raises(echobuf.CapacityError):
        iter(load(Numbers(20), 1, window=10**4, max_bytes=10**6))


def _load_in_a_daemon(pipe):
    try:
        load(Numbers(20), 1)
    except echobuf.OptionError as error:
        pipe.send(str(error))


def test_a_process_that_may_start_no_others():
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    daemon = context.Process(target=_load_in_a_daemon, args=(theirs,), daemon=True)
    daemon.start()
    theirs.close()
    assert "is a daemon" in ours.recv()
    daemon.join()
    daemon.close()
    ours.close()


def test_no_memory_for_the_queues_of_workers(monkeypatch):
    def refuse(*_):
        raise MemoryError("std::bad_alloc")

    loader = load(Numbers(20), 2)
    with monkeypatch.context() as patched:
        patched.setattr("echobuf.workers.pool._make_core", refuse)
        with pytest.raises(echobuf.CapacityError, match=r"2 workers .*`num_workers`"):
            iter(loader)
    assert len(list(loader)) == 10


def test_a_worker_init_fn_that_cannot_be_sent():
    loader = load(Numbers(20), 1, worker_init_fn=lambda number: None)
    with pytest.raises(echobuf.OptionError, match=r"`worker_init_fn` is .* cannot be"):
        iter(loader)


def test_an_iterable_dataset_of_torch():
    data = pytest.importorskip("torch.utils.data")

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(8))

        def __len__(self):
            return 8

    with pytest.raises(echobuf.OptionError, match="Pass a DataLoader of it"):
        load(Stream(), 1)
