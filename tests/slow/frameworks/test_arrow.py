"""Arrow and Parquet: tables are no arrays, their columns are."""

import numpy as np
import pytest

import echobuf
from upstream_checks import N, check_all, run

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}
IMAGE = pa.list_(pa.uint8(), 28 * 28)


@pytest.fixture(name="path", scope="module")
def _path(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrow") / "rows.parquet"
    pixels = (np.arange(N * 28 * 28) // (28 * 28)).astype(np.uint8)
    images = pa.FixedSizeListArray.from_arrays(pixels, type=IMAGE)
    table = pa.table({"image": images, "label": np.arange(N)})
    pq.write_table(table, path, row_group_size=70)
    return path


def test_the_page(path):
    names = {"path": path, "echobuf": echobuf}
    check_all(lambda: run("Arrow and Parquet", names)["loader"], 1)


def test_what_cannot_be_iterated(path):
    import pyarrow.dataset

    file = pq.ParquetFile(path)
    dataset = pyarrow.dataset.dataset(path)
    table = file.read()
    for upstream, line in [
        (file, r"upstream\.iter_batches\(\)"),
        (dataset, r"upstream\.to_batches\(\)"),
        (dataset.scanner(), r"upstream\.to_batches\(\)"),
        (table, r"upstream\.to_batches\(\)"),
        (table.to_batches()[0], r"in \[upstream\]"),
    ]:
        with pytest.raises(echobuf.OptionError, match="`upstream`.*" + line):
            echobuf.EchoLoader(upstream, **KWARGS)


TABLE = pa.table({"x": np.zeros(8, np.float32), "id": np.arange(8)})


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("kind", ["RecordBatch", "Table"])
def test_a_table_is_refused_before_numpy_joins_its_columns(kind, batched):
    item = TABLE if kind == "Table" else TABLE.to_batches()[0]
    assert np.asarray(item).dtype == np.float64
    loader = echobuf.EchoLoader([item] * 4, batched=batched, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=rf"{kind}.*to_numpy.*batched=True"):
        list(loader)


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"id": pa.array([[1], [2]])}, r"\['id'\]`.*\.flatten\(\)\.to_numpy"),
        ({"id": pa.chunked_array([["a"]])}, r"\['id'\]`.*\.to_numpy"),
        ({"id": TABLE["id"][0]}, r"\['id'\]`.*\.as_py\(\)"),
        ({"id": TABLE["id"].to_pylist()}, r"\['id'\]` is a list.*np\.asarray"),
    ],
)
def test_what_is_no_array(item, line):
    loader = echobuf.EchoLoader([item] * 4, batched=True, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=line):
        list(loader)
