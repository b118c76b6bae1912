"""`echobuf.torch.EchoLoader`: tensors that share the memory of the draw."""

import gc
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import echobuf
from echobuf.torch import EchoLoader, adapter
from test_loader import Numbers

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Examples(Dataset):
    def __init__(self, n=33, fail_at=None):
        self.n = n
        self.fail_at = fail_at

    def __len__(self):
        return self.n

    def __getitem__(self, number):
        if number == self.fail_at:
            raise OSError(f"no example {number}")
        image = torch.full((2, 3), number, dtype=torch.float32)
        return {"id": number, "image": image, "more": (image[0], [float(number)])}


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        yield from (Examples()[number] for number in range(first, 33, step))


def check(batch):
    assert batch["id"].dtype == torch.int64
    assert batch["image"].dtype == torch.float32
    assert batch["image"].shape[1:] == (2, 3)
    assert torch.equal(batch["image"][:, 1, 2], batch["id"].float())
    first, (number,) = batch["more"]
    assert torch.equal(first[:, 0], batch["id"].float())
    assert torch.equal(number, batch["id"].double())
    return batch["id"].tolist()


def uses(loader):
    return Counter(number for batch in loader for number in check(batch))


TWICE = Counter(2 * list(range(33)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("unit", ["example", "batch"])
def test_a_data_loader_is_taken_as_it_is(unit, workers, persistent):
    upstream = DataLoader(
        Examples(),
        batch_size=5,
        shuffle=True,
        num_workers=workers,
        persistent_workers=persistent and workers > 0,
    )
    window = 20 if unit == "example" else 4
    loader = EchoLoader(upstream, window=window, factor=2, unit=unit)
    for _ in range(2):
        assert uses(loader) == TWICE
    assert len(loader) == 14
    for _ in zip(range(3), loader, strict=False):
        pass
    assert uses(loader) == TWICE


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [5, None])
def test_an_iterable_dataset(workers, batch_size):
    upstream = DataLoader(Stream(), batch_size=batch_size, num_workers=workers)
    loader = EchoLoader(upstream, batch_size=4, window=20, factor=2)
    for _ in range(2):
        if batch_size:
            assert uses(loader) == TWICE
        else:
            ids = [number for batch in loader for number in batch["id"].tolist()]
            assert Counter(ids) == TWICE
    with pytest.raises(TypeError):
        len(loader)


def test_auto_is_the_default_and_the_batch_size_is_the_loaders():
    loader = EchoLoader(DataLoader(Examples(), batch_size=5), window=20)
    sizes = [len(batch["id"]) for batch in loader]
    assert set(sizes[:-1]) == {5}
    got = uses(loader)
    assert set(got) == set(range(33))
    assert max(got.values()) <= 8
    assert loader.stats().fresh == 33


def test_an_iterable_that_is_no_data_loader_yields_examples():
    loader = EchoLoader(Numbers(20), batch_size=4, window=16, factor=2)
    for batch in loader:
        assert type(batch["x"]) is torch.Tensor
        assert batch["x"].shape == (4, 3)


# ---- memory


@pytest.mark.host
@pytest.mark.parametrize("prefetch", [0, 2])
def test_tensors_share_the_memory_that_was_drawn_into(prefetch, monkeypatch):
    drawn = []
    convert = adapter.to_tensors

    def noted(dtypes, leaves):
        drawn.append({"id": leaves[0], "image": leaves[1]})
        return convert(dtypes, leaves)

    monkeypatch.setattr(adapter, "to_tensors", noted)
    upstream = DataLoader(Examples(), batch_size=5)
    for batch in EchoLoader(upstream, window=20, factor=2, prefetch=prefetch):
        for name in ("id", "image"):
            assert batch[name].data_ptr() == drawn[-1][name].ctypes.data
            assert batch[name].data_ptr() % 64 == 0
            assert batch[name].is_contiguous()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_tensors_stay_as_they_were_and_are_the_callers_to_change(prefetch):
    def draw(change):
        upstream = DataLoader(Examples(), batch_size=5)
        loader = EchoLoader(upstream, window=20, factor=2, prefetch=prefetch)
        kept = []
        for batch in loader:
            kept.append((batch["image"][1:], batch["id"][1:].tolist()))
            if change:
                batch["image"][0] = -1
                batch["id"].add_(1000)
        del loader, batch
        gc.collect()
        return kept

    plain, changed = draw(False), draw(True)
    assert [ids for _, ids in plain] == [ids for _, ids in changed]
    for image, ids in plain + changed:
        assert image[:, 0, 0].tolist() == ids


# ---- dtypes

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
]


@pytest.mark.parametrize("unit", ["example", "batch"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_comes_back(dtype, unit):
    batches = [torch.arange(s, s + 4).to(dtype)[:, None] for s in range(0, 16, 4)]
    kwargs = {"window": 8 if unit == "example" else 2, "factor": 1, "unit": unit}
    loader = EchoLoader([Point(b, b) for b in batches], batched=True, **kwargs)
    batch, *_ = got = list(loader)
    assert type(batch) is Point
    assert batch.x.dtype == dtype
    assert batch.x.shape == (4, 1)
    values = [number for b in got for number in b.x.to(torch.complex128).real.ravel()]
    expected = torch.cat(batches).to(torch.complex128).real.ravel()
    assert sorted(values) == sorted(expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("grad", [False, True])
def test_any_state_goes_on_exactly(dtype, grad):
    batches = [torch.arange(float(s), s + 5).to(dtype) for s in range(0, 40, 5)]
    batches = [batch.requires_grad_(grad) for batch in batches]

    def make():
        return EchoLoader(batches, batched=True, batch_size=4, window=16, factor=2)

    loader = make()
    expected = [batch.tolist() for batch in make()]
    for at, _ in enumerate(loader):
        resumed = make()
        resumed.load_state_dict(loader.state_dict())
        if at < len(expected) - 1:
            assert [batch.tolist() for batch in resumed] == expected[at + 1 :]


@pytest.mark.parametrize("other", [torch.int16, torch.float16])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_dtype_of_the_same_size_is_not_taken_for_another(other, turn):
    items = [torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=other)][::turn]
    loader = EchoLoader(items, batch_size=1, window=2, factor=1)
    with pytest.raises(echobuf.UpstreamError, match=r"`example`.*dtype"):
        list(loader)


# ---- errors

BAD = {
    "sparse": torch.eye(2).to_sparse(),
    "meta": torch.zeros(2, 2, device="meta"),
    "structured": np.zeros(2, [("a", "f4")]),
    "time": np.zeros(2, "M8[s]"),
}
OBJECTS = {"strings": ["a", "b"], "object": np.array([None, None])}


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("kind", [*BAD, *OBJECTS])
@pytest.mark.parametrize("at", [0, 3])
def test_values_that_no_tensor_can_hold_are_a_clear_error(kind, at, carry):
    bad = {"x": torch.zeros(2, 2), "y": {**BAD, **OBJECTS}[kind]}
    items = [{**bad, "y": torch.zeros(2)}] * at + [bad] * 2
    loader = EchoLoader(items, batched=True, window=4, factor=1, carry=carry)
    if carry and not at and kind in OBJECTS:
        assert all(len(batch["y"]) == 2 for batch in loader)
        return
    with pytest.raises(echobuf.SpecError, match=r"`(batch|example)[^`]*'y'"):
        list(loader)


@pytest.mark.parametrize(("fail_at", "workers"), [(0, 0), (17, 0), (32, 0), (17, 1)])
def test_an_exception_in_the_data_set_reaches_the_loop(fail_at, workers):
    upstream = DataLoader(Examples(fail_at=fail_at), batch_size=4, num_workers=workers)
    loader = EchoLoader(upstream, window=16, factor=2)
    with pytest.raises(echobuf.UpstreamError, match=f"no example {fail_at}") as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, OSError)
    upstream.dataset.fail_at = None
    assert uses(loader) == TWICE
