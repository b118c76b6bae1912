"""The code of docs/ragged.md runs."""

from pathlib import Path

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
    assert len(BLOCKS) == 5


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


def test_a_transform():
    buffer = run(4)["buffer"]
    buffer.put_batch({"tokens": [tokens(number) for number in (3, 16)]})
    buffer.close()
    batch = buffer.next_batch()
    assert batch["tokens"].shape == batch["attend"].shape == (2, 8)
    assert sorted(batch["attend"].sum(1).tolist()) == [3, 8]
