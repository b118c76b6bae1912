"""Ray Data: a dataset, and one shard of it a trainer, on a Ray of this machine."""

import gc
import itertools
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import echobuf
from echobuf.loader import source
from leaked_threads import no_feeder
from shuffle_checks import BUFFER, check_ours, lost_and_repeated
from upstream_checks import (
    N,
    check_all,
    check_epochs,
    check_unknown_length,
    ids_of,
    run,
)

# Ray sets what it has deprecated itself.
pytestmark = [
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),
    pytest.mark.timeout(900),
]

KWARGS = {"batch_size": 32, "window": 64, "factor": 2}


@pytest.fixture(name="ray", scope="module")
def _ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    before = set(os.listdir("/dev/shm"))
    folder = tempfile.mkdtemp(prefix="ray")  # short: it holds sockets
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Its processes take minutes to start on a busy machine, and are not to be
        # killed for the memory that others use.
        patch.setenv("RAY_worker_register_timeout_seconds", "600")
        patch.setenv("RAY_health_check_timeout_ms", "600000")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")
        # By default its workers give way to whatever else runs on the machine.
        patch.setenv("RAY_worker_niceness", "0")
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=folder,
        )
        # Its processes need not find this file.
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        yield ray
        no_feeder()
        threads_of_ray_end()
        ray.shutdown()
    shutil.rmtree(folder)
    left = set(os.listdir("/dev/shm")) - before
    assert not {name for name in left if "plasma" in name or "echobuf" in name}


def threads_of_ray_end():
    """Those of an epoch that was left early outlive it, and need Ray meanwhile.

    Without it, Ray 2.60 ends the process.
    """
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "iter_threaded":
            thread.join(60)
            assert not thread.is_alive()


def rows(batch):
    return {"id": batch["id"], "x": np.repeat(batch["id"][:, None], 3, 1)}


def train(shard, epochs, **kwargs):
    """In a trainer's process: the numbers of the examples served, an epoch each."""
    loader = echobuf.EchoLoader(shard, **kwargs)
    return [
        [i for batch in loader for i in batch["id"].tolist()] for _ in range(epochs)
    ]


@pytest.fixture(name="dataset", scope="module")
def _dataset(ray):
    return ray.data.range(N, override_num_blocks=4).map_batches(rows)


def test_the_page(ray, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = str(tmp_path / "rows.parquet")
    ids = np.arange(N)
    pq.write_table(pa.table({"id": ids, "x": ids / 1, "name": [*map(str, ids)]}), path)
    check_epochs(lambda: run("Ray Data", {"files": [path]})["loader"], "id")


def test_the_page_of_shuffle_buffers(ray, tmp_path):
    """Ray's own buffer has no state: started again, it serves others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": np.arange(N)}), path)
    check_ours("Ray Data", {"ray": ray, "files": [path]})

    def theirs():
        batches = ray.data.read_parquet(path).iter_batches(
            batch_size=32, local_shuffle_buffer_size=BUFFER
        )
        assert not hasattr(batches, "state_dict")
        return [i for batch in batches for i in batch["id"].tolist()]

    lost, repeated = lost_and_repeated([*theirs()[:96], *theirs()[96:]])
    assert lost == repeated > 0
    threads_of_ray_end()


def test_all_that_holds_for_others(dataset):
    check_all(lambda: echobuf.EchoLoader(dataset, **KWARGS, length=N), "id")


@pytest.mark.parametrize("equal", [True, False])
def test_two_trainers_with_a_shard_each(ray, dataset, equal):
    remote = ray.remote(num_cpus=0)(train)
    shards = dataset.streaming_split(2, equal=equal)
    trainers = ray.get([remote.remote(shard, 2, **KWARGS) for shard in shards])
    for parts in zip(*trainers, strict=True):
        counts = [Counter(part) for part in parts]
        assert sum(counts, Counter()) == Counter(2 * list(range(N)))
        assert not set(counts[0]) & set(counts[1])
        if equal:
            assert [len(count) for count in counts] == [N // 2] * 2


def test_a_shard_each_on_threads_and_an_epoch_that_is_left_early(dataset):
    """Only the rest that cannot be divided is left out."""
    shards = dataset.limit(N - 1).streaming_split(2, equal=True)
    loaders = [echobuf.EchoLoader(shard, **KWARGS, prefetch=1) for shard in shards]
    begun = threading.Barrier(2)

    def epochs(loader):
        served = []
        for stop in (None, 1, None):
            batches = itertools.islice(loader, stop)
            served.append(Counter(i for batch in batches for i in ids_of(batch, "id")))
            begun.wait(60)
        return served

    with ThreadPoolExecutor(2) as pool:
        firsts, _, lasts = zip(*pool.map(epochs, loaders), strict=True)
    for counts in (firsts, lasts):
        both = sum(counts, Counter())
        assert set(both.values()) == {2}
        assert [len(count) for count in counts] == [N // 2 - 1] * 2
        assert set(both) <= set(range(N - 1))
    for loader in loaders:
        loader.close()
    no_feeder()


def test_each_kind_of_it(ray, dataset):
    torch = pytest.importorskip("torch")
    import echobuf.torch

    expected = Counter(2 * list(range(N)))
    for upstream in (dataset, dataset.iterator(), dataset.materialize()):
        loader = echobuf.torch.EchoLoader(upstream, **KWARGS)
        for _ in range(2):
            batches = list(loader)
            assert all(torch.is_tensor(batch["x"]) for batch in batches)
            served = [i for batch in batches for i in ids_of(batch, "id")]
            assert Counter(served) == expected


def test_batches_as_ray_makes_them(dataset):
    """Of its own size, with a ragged tail, echoed whole, and begun anew."""
    loader = echobuf.EchoLoader(dataset, unit="batch", window=2, factor=2)
    for _ in range(2):
        lengths = Counter(len(batch["id"]) for batch in loader)
        assert lengths == {256: 2, N - 256: 2}
    torch_batches = dataset.iter_torch_batches(batch_size=100)
    loader = echobuf.EchoLoader(torch_batches, batched=True, **KWARGS)
    for _ in range(2):
        assert sum(len(batch["id"]) for batch in loader) == 2 * N


def test_nothing_in_it(ray, dataset):
    for upstream in (ray.data.from_items([]), dataset.limit(0)):
        loader = echobuf.EchoLoader(upstream, **KWARGS)
        assert [list(loader) for _ in range(2)] == [[], []]


def test_an_error_in_a_function_of_it(ray):
    def broken(batch):
        if (batch["id"] >= 200).any():
            raise ValueError("a broken row")
        return batch

    dataset = ray.data.range(N, override_num_blocks=6).map_batches(broken)
    loader = echobuf.EchoLoader(dataset, **KWARGS)
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError) as caught:
            list(loader)
        cause = caught.value.__cause__
        assert isinstance(cause, ray.exceptions.RayError)
        assert "ValueError: a broken row" in str(cause)
    loader.close()
    no_feeder()


def test_what_is_no_array(ray):
    for column, line in [
        (["a", "b"], r"no array.*`batch\['x'\]`.*Encode it"),
        ([np.zeros(1), np.zeros(2)], r"`batch\['x'\]`.*np\.pad"),
    ]:
        dataset = ray.data.from_items([{"x": value} for value in column])
        with pytest.raises(echobuf.SpecError, match=line):
            list(echobuf.EchoLoader(dataset, **KWARGS))


def test_what_does_not_go_with_it(dataset):
    with pytest.raises(echobuf.OptionError, match=r"`batched` is False.*leave"):
        echobuf.EchoLoader(dataset, batched=False, **KWARGS)
    shard, _ = dataset.streaming_split(2)
    with pytest.raises(echobuf.OptionError, match="`overlap_epochs` is True"):
        echobuf.EchoLoader(shard, overlap_epochs=True, **KWARGS)
    with pytest.raises(echobuf.OptionError, match=r"data of Ray.*leave"):
        echobuf.EchoLoader(dataset, num_workers=2, **KWARGS)
    for bad in (0, "8"):
        with pytest.raises(echobuf.OptionError, match=f"`batch_size` is {bad!r}"):
            echobuf.EchoLoader(dataset, **{**KWARGS, "batch_size": bad})
    check_unknown_length(dataset)


def test_analyze(dataset):
    def step(batch):
        assert set(batch) == {"id", "x"}
        time.sleep(1e-3)

    report = echobuf.analyze(dataset, step, batch_size=8, length=N, seconds=0.2)
    assert report.measurements.item == report.measurements.batch_size == 8
    assert report.measurements.spec["x"].shape == (3,)


def test_what_is_not_ray_s_is_as_it_was():
    upstream = [{"id": 1}]
    same = source.as_batches(upstream, batch_size=2, batched=False)
    assert same is upstream
