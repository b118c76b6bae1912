"""factor=1 in place of libraries' shuffle buffers, through the code of the page.

Each library's own way to go on in the middle of an epoch is counted beside it.
"""

import gc
import itertools
import json

import pytest

from shuffle_checks import BUFFER, N, check_ours, lost_and_repeated

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


# ---- Hugging Face


@pytest.fixture(name="parquet")
def _parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [str(tmp_path / f"{part}.parquet") for part in range(N // 100)]
    for part, path in enumerate(paths):
        pq.write_table(pa.table({"id": range(part * 100, part * 100 + 100)}), path)
    return paths


def test_hugging_face(parquet, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    names = {"load_dataset": datasets.load_dataset, "files": parquet}
    check_ours("Hugging Face datasets", names)

    def theirs():
        stream = datasets.load_dataset(
            "parquet", data_files=parquet, split="train", streaming=True
        )
        return stream.shuffle(seed=0, buffer_size=BUFFER, max_buffer_input_shards=1)

    first = theirs()
    served = [row["id"] for row in itertools.islice(first, 96)]
    again = theirs()
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    served += [row["id"] for row in again]
    lost, _ = lost_and_repeated(served)
    assert lost > 0


# ---- webdataset


@pytest.fixture(name="_closed_shards")
def _closed():
    yield
    gc.collect()


@pytest.mark.usefixtures("_closed_shards")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_webdataset(tmp_path):
    wds = pytest.importorskip("webdataset")
    np = pytest.importorskip("numpy")
    urls = [str(tmp_path / f"{part}.tar") for part in range(N // 100)]
    for part, url in enumerate(urls):
        with wds.TarWriter(url) as tar:
            for number in range(part * 100, part * 100 + 100):
                image = np.full((4, 4, 3), number % 251, np.uint8)
                tar.write({"__key__": f"{number:03}", "png": image, "cls": number})
    check_ours("webdataset", {"wds": wds, "urls": urls})

    def theirs():
        samples = wds.WebDataset(urls, shardshuffle=False).shuffle(BUFFER)
        return (int(row[0]) for row in samples.decode().to_tuple("cls"))

    assert not hasattr(wds.WebDataset(urls, shardshuffle=False), "state_dict")
    served = [*itertools.islice(theirs(), 96), *itertools.islice(theirs(), 96, None)]
    lost, repeated = lost_and_repeated(served)
    assert lost == repeated > 0
