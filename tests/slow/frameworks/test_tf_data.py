"""tf.data: a dataset as it is, and its NumPy iterator."""

import numpy as np
import pytest

import echobuf
from upstream_checks import N, check_all, check_unknown_length, ids_of, run

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}


@pytest.fixture(name="tf", scope="module")
def _tf():
    return pytest.importorskip("tensorflow")


def make():
    names = {
        "images": np.full((N, 4, 4), np.arange(N)[:, None, None], np.float32),
        "labels": np.arange(N),
        "augment": lambda example: example,
    }
    return run("tf.data", names)["loader"]


def test_the_page(tf):
    check_all(make, "label")


def test_the_numpy_iterator_gives_one_epoch(tf):
    items = tf.data.Dataset.range(10).as_numpy_iterator()
    loader = echobuf.EchoLoader(items, **KWARGS)
    assert len(list(loader)) == 5
    with pytest.raises(echobuf.UpstreamError, match=r"Pass the `tf\.data\.Dataset`"):
        iter(loader)


def test_batches(tf):
    dataset = tf.data.Dataset.range(30).map(lambda i: {"id": i}).batch(7)
    loader = echobuf.EchoLoader(dataset, batched=True, length=30, **KWARGS)
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader)
        served = [i for batch in batches for i in ids_of(batch, "id")]
        assert sorted(served) == sorted(2 * list(range(30)))


def test_no_length(tf):
    numbers = tf.data.Dataset.range(30)
    check_unknown_length(numbers.filter(lambda i: i > 3))
    check_unknown_length(numbers.repeat())
    check_unknown_length(numbers.as_numpy_iterator())
    check_unknown_length(numbers.batch(5), batched=True)


def test_strings_are_carried(tf):
    columns = {"id": np.arange(12), "name": [str(i) for i in range(12)]}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    for batch in echobuf.EchoLoader(dataset, **KWARGS):
        names = [int(name.numpy()) for name in batch["name"]]
        assert names == batch["id"].tolist()
    for batches in (dataset.batch(5), dataset.batch(5).as_numpy_iterator()):
        for batch in echobuf.EchoLoader(batches, batched=True, **KWARGS):
            assert {*map(type, batch["name"])} == {bytes}
            assert [*map(int, batch["name"])] == batch["id"].tolist()


def test_what_is_no_array(tf):
    ragged = tf.ragged.constant([[1, 2], [3], [4, 5, 6]])
    data = tf.data.Dataset
    cases = [
        (data.from_tensors(ragged), r"RaggedTensor.*\.to_tensor\(shape="),
        (data.from_tensor_slices(ragged), r"shape \[1\].*np\.pad"),
        (data.from_tensors(ragged).as_numpy_iterator(), r"object.*np\.pad"),
        (data.from_tensor_slices(["a", "b"]), r"no array.*tensor of strings: decode"),
        (data.from_tensor_slices(["a"]).as_numpy_iterator(), r"bytes.*Decode it"),
        (data.from_tensors(tf.sparse.eye(3)), r"tf\.sparse\.to_dense"),
    ]
    for upstream, line in cases:
        with pytest.raises(echobuf.SpecError, match=r"`example`.*" + line):
            list(echobuf.EchoLoader(upstream, **KWARGS))
