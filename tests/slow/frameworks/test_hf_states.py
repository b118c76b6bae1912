"""Streams of Hugging Face datasets keep a state, which a loader's holds."""

import json

import pytest

import echobuf
from echobuf.loader.loader import internals_of
from echobuf.loader.states import as_stateful
from upstream_checks import SET_VITAL

datasets = pytest.importorskip("datasets")
N = 300
KWARGS = {"batch_size": 4, "window": 16, "factor": 2}

pytestmark = [pytest.mark.usefixtures("no_leaked_threads"), SET_VITAL]


@pytest.fixture(name="files")
def _files(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"id": range(N)})
    paths = [str(tmp_path / f"{part}.parquet") for part in range(6)]
    for part, path in enumerate(paths):
        whole.shard(6, part).to_parquet(path)
    return paths


def stream(files):
    return datasets.load_dataset(
        "parquet", data_files=files, split="train", streaming=True
    ).with_format("numpy")


def by_file(files):
    return stream(files).shuffle(seed=0, buffer_size=1, max_buffer_input_shards=1)


def batches(files):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    return torchdata.StatefulDataLoader(by_file(files), batch_size=5)


def ids(loader):
    return [batch["id"].tolist() for batch in loader]


@pytest.mark.parametrize("told", [None, 3])
@pytest.mark.parametrize("kind", [stream, by_file, batches])
def test_a_stream_goes_on_where_it_was(files, kind, told):
    """In a process that has not said which epoch it is, too; the next one is whole."""
    kwargs = {**KWARGS, "batched": kind is batches}
    loader = echobuf.EchoLoader(kind(files), **kwargs)
    if told is not None:
        loader.set_epoch(told)
    epoch = iter(loader)
    for _ in range(100):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = ids(epoch)
    resumed = echobuf.EchoLoader(kind(files), **kwargs)
    resumed.load_state_dict(state)
    epoch = iter(resumed)
    snapshots = internals_of(resumed).starter.positions
    begun = snapshots.kept[0].offset  # where upstream went on
    assert state["fresh_offset"] - 5 < begun <= state["fresh_offset"]
    assert ids(epoch) == expected
    assert ids(resumed) == ids(loader)


def test_a_stream_with_a_shuffle_buffer_is_read_from_its_start(files):
    """Its state leaves out what lies in the buffer."""
    assert as_stateful(stream(files)) is not None
    assert as_stateful(stream(files).shuffle(seed=0, buffer_size=9)) is None
    maps = stream(files).shuffle(seed=0, buffer_size=9).map(lambda row: row)
    assert as_stateful(maps) is None
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    assert as_stateful(torchdata.StatefulDataLoader(maps)) is None
