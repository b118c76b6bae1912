"""Hugging Face datasets: of a map's style, and streaming."""

import numpy as np
import pytest

import echobuf
from upstream_checks import N, check_all, check_resume, check_unknown_length, run

datasets = pytest.importorskip("datasets")
Image = pytest.importorskip("PIL.Image")

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}
COLUMNS = {
    "x": [[float(i)] * 3 for i in range(N)],
    "id": list(range(N)),
    "name": [str(i) for i in range(N)],
}


@pytest.fixture(name="files")
def _files(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict(COLUMNS)
    paths = [str(tmp_path / f"{part}.parquet") for part in range(3)]
    for part, path in enumerate(paths):
        whole.shard(3, part).to_parquet(path)
    return paths


def test_the_page(files):
    check_all(lambda: run("Hugging Face datasets", {"files": files})["loader"], "id")


def test_the_page_streaming(files):
    check_all(lambda: streaming(files)["loader"], "id")


def streaming(files):
    names = {"files": files, "count": N}
    return run("Hugging Face datasets, streaming", names)


def test_a_stream_whose_files_are_shuffled_by_epoch(files):
    streams = []

    def make():
        stream = streaming(files)["stream"]
        streams.append(stream.shuffle(seed=0, buffer_size=1, max_buffer_input_shards=1))
        return echobuf.EchoLoader(streams[-1], **KWARGS, length=N)

    def begin(epoch):
        streams[-1].set_epoch(epoch)

    loader = make()
    firsts = []
    for epoch in range(4):
        begin(epoch)
        firsts.append(next(iter(loader))["id"][0] // 100)
    assert len(set(firsts)) > 1
    check_resume(make, "id", begin)


def test_through_data_loader_workers():
    torch_data = pytest.importorskip("torch.utils.data")
    import echobuf.torch

    dataset = datasets.Dataset.from_dict(COLUMNS)

    def make():
        upstream = torch_data.DataLoader(
            dataset.with_format("torch"), batch_size=16, num_workers=2
        )
        return echobuf.torch.EchoLoader(upstream, window=64, factor=2)

    check_all(make, "id")


def test_lengths():
    dataset = datasets.Dataset.from_dict({"id": range(30)}).with_format("numpy")
    kept = dataset.filter(lambda row: row["id"] % 3 == 0, new_fingerprint="kept")
    loader = echobuf.EchoLoader(kept, **KWARGS)
    assert len(loader) == 5 == len(list(loader))
    check_unknown_length(dataset.batch(4), batched=True)
    check_unknown_length(dataset.to_iterable_dataset())


IMAGES = [Image.new("RGB", (4, 4 + number % 2)) for number in range(3)]
NAIVE = [
    ({"name": ["a", "b"]}, r"no array.*`example\['name'\]` is of type str.*Encode it"),
    (
        {"x": [[1, 2], [3]]},
        r"`example\['x'\]` is a list.*np\.asarray.*\.with_format\('numpy'\)",
    ),
    ({"x": [[], [3]]}, r"`example\['x'\]` is a list.*np\.asarray"),
    ({"id": [0, 1], "x": [[], [3]]}, r"`example\['x'\]` is a list.*np\.asarray"),
    ({"x": [1, None]}, r"`example\['x'\]` is of type NoneType.*Fill in"),
    ({"x": IMAGES}, r"`example\['x'\]` has shape.*image\.convert\('RGB'\)\.resize"),
    ({"x": [b"a"]}, r"`example\['x'\]` is of type bytes.*Decode it"),
]


@pytest.mark.parametrize(("columns", "line"), NAIVE)
def test_what_is_no_array(columns, line):
    dataset = datasets.Dataset.from_dict(columns)
    with pytest.raises(echobuf.SpecError, match=line):
        list(echobuf.EchoLoader(dataset, **KWARGS))


@pytest.mark.parametrize("form", ["numpy", "torch"])
def test_strings_of_slices_are_carried(form):
    slices = datasets.Dataset.from_dict(COLUMNS).with_format(form).batch(7)
    for batch in echobuf.EchoLoader(slices, batched=True, **KWARGS):
        assert [*map(int, batch["name"])] == batch["id"].tolist()


def test_what_is_no_array_with_the_format_numpy():
    for columns, line in [
        ({"x": ["a", "b"]}, r"`example\['x'\]` has dtype <U1.*Encode it"),
        ({"x": [[1, 2], [3]]}, r"`example\['x'\]` has shape \[1\].*np\.pad"),
        ({"x": [[[1, 2], [3]]]}, r"`example\['x'\]` has dtype object.*np\.pad"),
    ]:
        dataset = datasets.Dataset.from_dict(columns).with_format("numpy")
        with pytest.raises(echobuf.SpecError, match=line):
            list(echobuf.EchoLoader(dataset, **KWARGS))


def test_a_dict_of_splits_is_refused():
    splits = datasets.DatasetDict(train=datasets.Dataset.from_dict({"id": [1]}))
    with pytest.raises(echobuf.OptionError, match=r"upstream\['train'\]"):
        echobuf.EchoLoader(splits, **KWARGS)


def test_batches_of_python_lists_are_refused():
    batches = datasets.Dataset.from_dict(COLUMNS).select_columns(["id"]).batch(4)
    loader = echobuf.EchoLoader(batches, batched=True, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=r"`batch\['id'\]` is a list.*asarray"):
        list(loader)


def test_plain_lists_of_one_length_are_structures():
    dataset = datasets.Dataset.from_dict(COLUMNS)
    (batch, *_) = echobuf.EchoLoader(dataset, **KWARGS)
    assert isinstance(batch["x"], list)
    assert all(np.array_equal(leaf, batch["id"]) for leaf in batch["x"])


IDS = [[number] * (number * 5 % 13) for number in range(60)]


def numbers_in(leaf):
    """Return the set of numbers of each array in a ragged leaf."""
    return [sorted(set(np.asarray(ids).tolist())) for ids in leaf.to_list()]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_texts_of_any_length(kind):
    dataset = datasets.Dataset.from_dict({"input_ids": IDS, "id": range(60)})
    module = echobuf if kind == "numpy" else pytest.importorskip("echobuf.torch")
    loader = module.EchoLoader(
        dataset.with_format(kind), **KWARGS, payload_bytes=20_000, ragged="padded"
    )
    for _ in range(2):
        ids = []
        for batch in loader:
            lengths = [len(IDS[number]) for number in batch["id"].tolist()]
            assert batch["input_ids"].lengths.tolist() == lengths
            for number, found in zip(
                batch["id"].tolist(), numbers_in(batch["input_ids"]), strict=True
            ):
                assert found == ([number] if IDS[number] else [])
            ids += batch["id"].tolist()
        assert sorted(ids) == sorted([*range(60)] * 2)
    loader.close()


def test_texts_in_columns_of_arrow():
    dataset = datasets.Dataset.from_dict({"input_ids": IDS, "id": range(60)})
    dataset = dataset.with_format("arrow")

    class Columns:
        def __iter__(self):
            for table in dataset.iter(batch_size=7):
                yield {"input_ids": table["input_ids"], "id": np.asarray(table["id"])}

    loader = echobuf.EchoLoader(Columns(), batched=True, **KWARGS, payload_bytes=20_000)
    batches = list(loader)
    ids = [number for batch in batches for number in batch["id"].tolist()]
    assert sorted(ids) == sorted([*range(60)] * 2)
    for batch in batches:
        assert batch["input_ids"].values.dtype == np.int32  # as datasets stores ids
        expected = [[n] if IDS[n] else [] for n in batch["id"].tolist()]
        assert numbers_in(batch["input_ids"]) == expected


def test_texts_without_a_format_are_refused():
    dataset = datasets.Dataset.from_dict({"input_ids": IDS})
    loader = echobuf.EchoLoader(dataset, **KWARGS, payload_bytes=20_000)
    with pytest.raises(echobuf.SpecError, match=r"list.*with_format\('numpy'\)"):
        list(loader)
