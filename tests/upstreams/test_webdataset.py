"""webdataset: shards of images, plain and through worker processes."""

import gc
import io
import threading

import numpy as np
import pytest

import echobuf
from leaked_threads import no_feeder
from upstream_checks import (
    N,
    check_all,
    check_epochs,
    check_resume,
    check_unknown_length,
    run,
)

wds = pytest.importorskip("webdataset")
Image = pytest.importorskip("PIL.Image")

# webdataset leaves it to the garbage collector to close its shards.
CLOSED_LATE = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
# torch warns of the read-only arrays that webdataset makes of images.
READ_ONLY = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
pytestmark = [CLOSED_LATE, READ_ONLY]

KWARGS = {"batch_size": 32, "window": 64, "factor": 2}


@pytest.fixture(autouse=True)
def _closed_shards():
    before = threading.enumerate()
    yield
    no_feeder(before)  # threads that hold a shard
    gc.collect()


def png_of(number):
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4, 3), number % 256, np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.fixture(name="urls", scope="module")
def _urls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    paths = [str(folder / f"{shard:02}.tar") for shard in range(6)]
    for shard, path in enumerate(paths):
        with wds.TarWriter(path) as writer:
            for number in range(shard, N, 6):
                sample = {"png": png_of(number), "cls": str(number).encode()}
                writer.write({"__key__": str(number), **sample})
    return paths


def samples_of(urls):
    return wds.WebDataset(urls, shardshuffle=100, seed=0)


def decoded(urls):
    return samples_of(urls).decode("rgb8").to_tuple("png", "cls")


def test_the_page(urls):
    check_all(lambda: run("webdataset", {"urls": urls, "count": N})["loader"], "cls")


def test_worker_processes(urls):
    def make():
        upstream = wds.WebLoader(decoded(urls), batch_size=None, num_workers=2)
        return echobuf.EchoLoader(upstream, **KWARGS, length=N)

    check_epochs(make, 1)
    check_resume(make, 1)


def test_its_batches_and_its_length(urls):
    batches = decoded(urls).batched(16)
    loader = echobuf.EchoLoader(batches, **KWARGS, batched=True, length=N)
    assert len(list(loader)) == len(loader)
    loader = echobuf.EchoLoader(decoded(urls).with_length(N, silent=True), **KWARGS)
    assert len(list(loader)) == len(loader)
    check_unknown_length(decoded(urls))


@pytest.mark.parametrize(
    ("naive", "line"),
    [
        (samples_of, r"has no array: .*example\['__key__'\]`.*\.decode"),
        (lambda urls: samples_of(urls).to_tuple("png"), r"example\[0\]`.*\.decode"),
        (
            lambda urls: samples_of(urls).decode("pil").map(strange_size),
            r"example\[0\]` has shape.*image\.convert\('RGB'\)\.resize",
        ),
    ],
)
def test_what_is_no_array(urls, naive, line):
    with pytest.raises(echobuf.SpecError, match=line):
        list(echobuf.EchoLoader(naive(urls), **KWARGS))


def strange_size(sample):
    return (sample["png"].resize((4, 4 + sample["cls"] % 2)),)


def test_encoded_files_are_ragged(urls):
    """A loader stores the bytes of the files, which are decoded after the draw."""
    upstream = wds.WebDataset(urls, shardshuffle=False).to_tuple("png", "cls")
    upstream = upstream.map_tuple(lambda png: png, int)
    loader = echobuf.EchoLoader(upstream, **KWARGS, payload_bytes=100_000)
    numbers = []
    for files, labels in loader:
        assert files.values.dtype == np.uint8
        for file, number in zip(files.to_list(), labels.tolist(), strict=True):
            image = Image.open(io.BytesIO(file.tobytes()))
            assert np.asarray(image).max() == number % 256
            numbers.append(number)
    assert sorted(numbers) == sorted([*range(N)] * 2)
