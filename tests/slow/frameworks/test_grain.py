"""Grain: datasets and its DataLoader."""

import numpy as np
import pytest

import echobuf
from upstream_checks import (
    N,
    check_all,
    check_epochs,
    check_resume,
    check_unknown_length,
    run,
)

grain = pytest.importorskip("grain")

RECORDS = list(range(N))
KWARGS = {"batch_size": 32, "window": 64, "factor": 2, "length": N}


def decode(number):
    return {"x": np.full(3, number, np.float32), "id": number}


def make():
    return run("Grain", {"records": RECORDS, "decode": decode})["loader"]


def test_the_page():
    check_all(make, "id")


def test_an_iter_dataset():
    def make_iter():
        dataset = grain.MapDataset.source(RECORDS).shuffle(seed=0).map(decode)
        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
        return echobuf.EchoLoader(dataset.to_iter_dataset(options), **KWARGS)

    check_all(make_iter, "id")


class Decode(grain.transforms.Map):
    def map(self, number):
        return decode(number)


def test_its_data_loader():
    def make_loader():
        upstream = grain.DataLoader(
            data_source=RECORDS,
            sampler=grain.samplers.IndexSampler(N, shuffle=True, seed=0, num_epochs=1),
            operations=[Decode()],
        )
        return echobuf.EchoLoader(upstream, **KWARGS)

    check_epochs(make_loader, "id")
    check_resume(make_loader, "id")


def test_no_length():
    dataset = grain.MapDataset.source(RECORDS)
    check_unknown_length(dataset.to_iter_dataset())
    check_unknown_length(dataset.batch(7), batched=True)
    # `len` would be N, and endless.
    check_unknown_length(dataset.filter(lambda number: number % 2))
    check_unknown_length(dataset.repeat())
