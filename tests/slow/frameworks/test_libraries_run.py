"""Rows of the table of libraries in docs/upstreams.md, with the libraries themselves.

requirements-libraries.txt installs them, in an environment of their own: .ci/run.
"""

import importlib
import wave

import numpy as np
import pytest

import echobuf
from libraries import N, loader_of, served

# Of what the libraries import, and do, themselves.
pytestmark = [pytest.mark.libraries, pytest.mark.filterwarnings("ignore")]

NUMBERS = np.arange(N)
ROWS = np.repeat(NUMBERS, 3).reshape(N, 3).astype(np.float32)


@pytest.fixture(name="library")
def _library(request):
    return pytest.importorskip(request.param)


def library(name):
    return pytest.mark.parametrize("library", [name], indirect=True)


def part(module, name):
    return importlib.import_module(f"{module.__name__}.{name}")


def ids(batch):
    return batch["id"]


@library("albumentations")
def test_albumentations(library):
    images = [np.full((8, 8, 3), number, np.uint8) for number in NUMBERS]
    names = {"images": images, "augment": library.Compose([library.RandomCrop(4, 4)])}
    served("albumentations", names, lambda batch: batch[:, 0, 0, 0])


@library("anndata")
def test_anndata(library):
    sparse = pytest.importorskip("scipy.sparse")
    cells = library.AnnData(X=sparse.csr_matrix(ROWS))
    served("anndata", {"cells": cells}, lambda batch: batch[:, 0])


@library("gluonts")
def test_gluonts(library):
    pandas = pytest.importorskip("pandas")
    transform = part(library, "transform")

    class Second(transform.InstanceSampler):
        """One window of each series, from its second number on."""

        def __call__(self, ts):
            return np.array([1])

    def batchify(items):  # as `gluonts.torch.batchify`, which wants Lightning
        columns = {key: [item[key] for item in items] for key in items[0]}
        arrays = {
            key: np.stack(column)
            for key, column in columns.items()
            if isinstance(column[0], np.ndarray)
        }
        return {**columns, **arrays}

    start = pandas.Period("2020-01-01", freq="D")
    series = [{"start": start, "target": np.full(9, i)} for i in NUMBERS]
    fields = ("target", "is_pad", "start", "forecast_start")
    names = {
        "series": part(library, "dataset.common").ListDataset(series, freq="D"),
        "splitter": transform.InstanceSplitter(
            *fields, instance_sampler=Second(), past_length=1, future_length=4
        ),
        "TrainDataLoader": part(library, "dataset.loader").TrainDataLoader,
        "batchify": batchify,
    }
    loader = loader_of("GluonTS", names)
    for _ in range(2):  # ten batches of 32 series, in turn
        batches = list(loader)
        assert len(batches) == 2 * 10 * 32 // 4
        for batch in batches:
            assert (batch["future_target"] == batch["past_target"]).all()
            assert batch["forecast_start"] == [start + 1] * 4


@library("h5py")
def test_h5py(library, tmp_path):
    with library.File(tmp_path / "rows.h5", "w") as file:
        file["x"], file["id"] = ROWS, NUMBERS
        served("h5py", {"file": file, "n": N}, ids)


@library("lhotse")
def test_lhotse(library, tmp_path):
    recordings = []
    for number in NUMBERS:
        path = tmp_path / f"{number}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", None))
            samples = np.full(400 + 100 * (number % 3), number * 1024, np.int16)
            file.writeframes(samples.tobytes())
        recordings.append(library.Recording.from_file(path))
    recordings = library.RecordingSet.from_recordings(recordings)
    cuts = library.CutSet.from_manifests(recordings=recordings).to_eager()

    def numbers(batch):
        audio = batch["audio"]
        found = (audio.values[audio.offsets[:-1]] * 32).astype(int)
        assert [cut.split("-")[0] for cut in batch["id"]] == [*map(str, found)]
        return found

    served("lhotse", {"cuts": cuts}, numbers)
    for batch in echobuf.EchoLoader(cuts, batch_size=4, window=8, factor=1):
        assert type(batch) is type(cuts[0])
        assert len(batch.id) == len(batch.start) == 4


@library("litdata")
def test_litdata(library, tmp_path):
    streaming = part(library, "streaming")
    writer = streaming.Cache(str(tmp_path), chunk_bytes=100_000)
    for number in NUMBERS:
        writer[number] = {"x": ROWS[number], "id": int(number)}
    writer.done()
    writer.merge()
    dataset = library.StreamingDataset(str(tmp_path))
    served("litdata", {"dataset": dataset}, ids)


@library("minari")
def test_minari(library):
    episode = part(library, "dataset.episode_data").EpisodeData
    episodes = [
        episode(
            id=number,
            observations=np.full((number % 3 + 2, 4), number, np.float32),
            actions=np.full(number % 3 + 1, number),
            rewards=np.zeros(number % 3 + 1),
            terminations=np.zeros(number % 3 + 1, bool),
            truncations=np.zeros(number % 3 + 1, bool),
            infos={},
        )
        for number in NUMBERS
    ]

    def firsts(batch):
        return batch["action"].values[batch["action"].offsets[:-1]]

    served("minari", {"episodes": episodes}, firsts)


@library("mne")
def test_mne(library):
    events = np.stack([NUMBERS * 50, 0 * NUMBERS, NUMBERS], 1)
    info = library.create_info(3, 100.0, "eeg")
    signals = np.zeros((N, 3, 50))
    epochs = library.EpochsArray(signals, info, events, verbose="error")
    served("mne", {"epochs": epochs}, lambda batch: batch[1])


@library("monai")
def test_monai(library):
    items = [
        {"image": np.zeros((1, 4, 4)), "label": i, "path": f"{i}.nii"} for i in NUMBERS
    ]
    transform = part(library, "transforms").EnsureTyped(keys="image")
    dataset = part(library, "data").Dataset(items, transform)
    served("MONAI", {"dataset": dataset}, lambda batch: batch["label"])
    for batch in loader_of("MONAI", {"dataset": dataset}):
        assert batch["path"] == [f"{i}.nii" for i in batch["label"]]


@library("polars")
def test_polars(library):
    frame = library.DataFrame({"x": ROWS, "id": NUMBERS, "name": ["a"] * N})
    served("polars", {"frame": frame}, ids)


@library("lance")
def test_pylance(library, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"x": ROWS[:, 0], "id": NUMBERS})
    rows = library.write_dataset(table, tmp_path / "rows.lance")
    served("pylance", {"rows": rows}, ids)


@library("spdl")
def test_spdl(library):
    source = [{"x": x, "id": i} for i, x in enumerate(ROWS)]
    names = {"DataLoader": part(library, "dataloader").DataLoader, "source": source}
    served("spdl", names, ids)


@library("tensordict")
def test_tensordict(library):
    torch = pytest.importorskip("torch")
    leaves = {"x": torch.from_numpy(ROWS), "id": torch.arange(N)}
    tensors = library.TensorDict(leaves, batch_size=[N])
    served("tensordict", {"tensors": tensors}, ids)


@library("tensorstore")
def test_tensorstore(library):
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}}
    options = {"create": True, "dtype": "float32", "shape": ROWS.shape}
    x = library.open(spec, **options).result()
    x.write(ROWS).result()
    served("tensorstore", {"x": x}, lambda batch: batch[:, 0])


@library("tonic")
def test_tonic(library):
    dtype = [("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "i1")]
    recordings = [(np.zeros(3 + i % 5, dtype), i) for i in NUMBERS]
    assert part(library, "transforms").ToFrame((1, 1, 2), n_time_bins=1)(
        recordings[0][0]
    ).shape == (1, 2, 1, 1)
    served("tonic", {"recordings": recordings}, lambda batch: batch[1])


@library("torch_geometric")
def test_torch_geometric(library):
    torch = pytest.importorskip("torch")
    graphs = [
        part(library, "data").Data(
            x=torch.zeros(2 + i % 3, 4),
            edge_index=torch.zeros(2, i % 4, dtype=torch.int64),
            y=torch.tensor([i]),
        )
        for i in NUMBERS
    ]
    served("torch_geometric", {"graphs": graphs}, lambda batch: batch["y"])


@library("torchio")
def test_torchio(library):
    torch = pytest.importorskip("torch")
    image = library.ScalarImage(tensor=torch.zeros(1, 2, 2, 2))
    subjects = [library.Subject(t1=image, label=i, name="a") for i in NUMBERS]
    subjects = library.SubjectsDataset(subjects)
    served("TorchIO", {"subjects": subjects}, lambda batch: batch["label"])
    batch = next(iter(loader_of("TorchIO", {"subjects": subjects})))
    assert batch["t1"].shape == (4, 1, 2, 2, 2)
    assert batch["name"] == ["a"] * 4


@library("xbatcher")
def test_xbatcher(library):
    xarray = pytest.importorskip("xarray")
    grid = xarray.Dataset({"x": (("time", "f"), ROWS), "id": ("time", NUMBERS)})
    windows = library.BatchGenerator(grid, input_dims={"time": 1})
    served("xbatcher", {"windows": windows}, ids)


@library("zarr")
def test_zarr(library):
    group = library.create_group({})
    group.create_array("x", data=ROWS)
    group.create_array("id", data=NUMBERS)
    served("zarr", {"group": group, "n": N}, ids)
