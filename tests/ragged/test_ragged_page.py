"""The code of docs/ragged.md runs."""

import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import markdown

pa = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")

BLOCKS = markdown.blocks(Path(__file__).parents[2] / "docs" / "ragged.md", "python")

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]


def tokens(number):
    return np.full(number % 17, number, np.int32)


def run(at, **names):
    exec(BLOCKS[at], names)
    return names


def test_there_is_no_other_code():
    elsewhere = [
        code for code in BLOCKS if "cu_seqlens" in code or "def attend" in code
    ]
    assert len(elsewhere) == 2  # test_ragged_attention.py runs them
    assert len(BLOCKS) - len(elsewhere) == 9


def test_a_loader():
    names = run(0, corpus=[(tokens(number), number) for number in range(100)])
    shapes = [
        (
            len(batch["label"]),
            batch["tokens"].values.dtype,
            len(batch["tokens"].offsets),
        )
        for batch in names["loader"]
    ]
    assert shapes[0] == (32, np.int32, 33)
    assert sum(size for size, _, _ in shapes) == 200
    names["loader"].close()


def test_a_buffer():
    clouds = run(1)["clouds"]
    assert len(clouds) == 2
    assert {len(each) for each in clouds} < {2, 3, 7}


def test_a_data_loader():
    dataset = [
        {"tokens": torch.from_numpy(tokens(number)), "label": number}
        for number in range(100)
    ]
    loader = run(2, dataset=dataset)["loader"]
    labels = []
    for batch in loader:
        assert batch["tokens"].layout == torch.jagged
        lengths = batch["tokens"].offsets().diff()
        assert torch.equal(lengths, batch["label"] % 17)
        labels += batch["label"].tolist()
    assert set(labels) == set(range(100))
    loader.close()


def test_columns_of_arrow():
    column = pa.array([tokens(number) for number in range(100)], pa.list_(pa.int32()))
    table = pa.table({"tokens": column, "label": np.arange(100)})
    loader = run(3, table=table, echobuf=__import__("echobuf"))["loader"]
    labels = []
    for batch in loader:
        assert batch["tokens"].lengths.tolist() == (batch["label"] % 17).tolist()
        labels += batch["label"].tolist()
    assert sorted(labels) == list(range(100))
    loader.close()


def test_batches_are_echoed_whole():
    dataset = [
        {"tokens": torch.from_numpy(tokens(number)), "label": number}
        for number in range(100)
    ]
    before = run(2, dataset=dataset)
    before["loader"].close()
    loader = run(
        4,
        **{name: before[name] for name in ("echobuf", "DataLoader")},
        dataset=dataset,
        collate=before["collate"],
    )["loader"]
    sizes = []
    for batch in loader:
        longest = int(batch["tokens"].lengths.max())
        assert batch["tokens"].values.shape == (len(batch["label"]), longest)
        assert torch.equal(batch["tokens"].lengths, batch["label"] % 17)
        sizes.append(len(batch["label"]))
    assert sorted(sizes) == [4] * 2 + [32] * 6
    loader.close()


def test_a_chain():
    with run(5)["buffer"] as buffer:
        for number in range(1, 65):
            buffer.put({"tokens": tokens(number)})
        buffer.close()
        batches = list(buffer)
    attended = []
    for batch in batches:
        assert batch["tokens"].shape == batch["attend"].shape == (2, 8)
        assert (batch["attend"][:, :-1] >= batch["attend"][:, 1:]).all()
        attended += batch["attend"].sum(axis=1).tolist()
    expected = [min(8, number % 17) for number in range(1, 65)]
    assert sorted(attended) == sorted(2 * expected)


def jpeg(number):
    image = pytest.importorskip("PIL.Image").new("RGB", (30, 20), (number, 0, 0))
    file = io.BytesIO()
    image.save(file, "jpeg")
    return file.getvalue()


def test_encoded_images():
    files = [{"image": jpeg(20 * i), "label": i} for i in range(8)]
    names = run(6, files=files)
    for batch in names["loader"]:
        assert batch["image"].shape == (len(batch["label"]), 224, 224, 3)
        red = batch["image"][:, 100, 100, 0].astype(int)
        assert (abs(red - 20 * batch["label"]) <= 2).all()
    names["loader"].close()
    names["pool"].shutdown()


def test_a_decoder_of_a_gpu(monkeypatch):
    """The function hands arrays to the decoder, and its images on."""

    class Decoder:
        def decode(self, encoded, cuda_stream):
            assert cuda_stream == 7
            assert {type(file) for file in encoded} == {np.ndarray}
            return [torch.full((224, 224, 3), len(file)).byte() for file in encoded]

    codec = ModuleType("nvidia.nvimgcodec")
    codec.Decoder = Decoder
    package = ModuleType("nvidia")
    package.nvimgcodec = codec
    monkeypatch.setitem(sys.modules, "nvidia", package)
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", codec)
    stream = SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    files = [{"image": bytes(number)} for number in range(1, 9)]
    with run(7, files=files)["loader"] as loader:
        sizes = [image[0, 0, 0].item() for batch in loader for image in batch["image"]]
    assert sorted(sizes) == sorted([*range(1, 9)] * 2)


def test_memory_of_the_callers():
    names = run(8)
    assert names["batch"] is names["out"]
    lengths = [len(text) for text in names["texts"]]
    assert lengths == names["batch"]["label"].tolist()
    values, offsets = names["out"]["tokens"]
    assert not values[offsets[-1] :].any()
    with names["buffer"]:
        pass
