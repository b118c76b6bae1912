"""A cache keeps items whose arrays differ in length, each as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import echobuf
from cache_data import COUNT, make
from echobuf import EchoLoader
from echobuf.cache import CachedDataset

torch = pytest.importorskip("torch")

LENGTHS = [number * 7 % 23 for number in range(COUNT)]  # one is 0


def text(number: int) -> dict[str, Any]:
    length = LENGTHS[number]
    return {
        "tokens": np.arange(length, dtype=np.int32) + number,
        "points": torch.full((length % 5, 2), float(number)),
        "file": bytes([number]) * (length % 7),
        "number": number,
    }


class Texts:
    """Items that differ in length.

    Attributes:
        reads: the numbers of the items that were read, in this process.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.reads.append(number)
        return text(number)


def check_text(got: dict[str, Any], number: int) -> None:
    expected = text(number)
    assert got["tokens"].dtype == np.int32
    assert got["tokens"].tolist() == expected["tokens"].tolist()
    assert torch.equal(got["points"], expected["points"])
    assert (got["file"], got["number"]) == (expected["file"], number)


def test_items_of_any_length_come_back(place):
    source = Texts()
    cached = make(place(), source=source)
    read = len(source.reads)  # for the identity of a directory
    for _ in range(2):
        for number in range(COUNT):
            check_text(cached[number], number)
    assert len(source.reads) - read <= COUNT
    stats = cached.stats()
    assert (stats.items, stats.hits, stats.damaged) == (COUNT, COUNT, 0)


def test_a_short_item_takes_little(place):
    """Lengths are not those of the longest: most short ones fit where few long do."""
    sizes = [10] * 30 + [4000] * 2
    source = [np.zeros(size, np.uint8) for size in sizes]
    cached = make(place(), 10_000, source=source)
    for number in range(len(source)):
        assert cached[number].shape == (sizes[number],)
    assert cached.stats().items >= 31


def test_a_loader_echoes_what_a_cache_keeps(place):
    cached = make(place(), source=Texts())
    loader = EchoLoader(
        cached, batch_size=4, window=16, factor=2, payload_bytes=20_000, seed=3
    )
    for _ in range(2):
        numbers = []
        for batch in loader:
            leaves = [batch[name].to_list() for name in ("tokens", "points", "file")]
            for number, tokens, points, file in zip(
                batch["number"].tolist(), *leaves, strict=True
            ):
                got = {"tokens": tokens, "points": torch.from_numpy(points)}
                check_text({**got, "file": file.tobytes(), "number": number}, number)
                numbers.append(number)
        assert sorted(numbers) == sorted([*range(COUNT)] * 2)
    assert cached.stats().hit_rate == 0.5
    assert loader.stats().mean_rows > 0


def test_items_that_peers_hold(ranks_here):
    from sharing_ranks import Sharing

    sharing = Sharing(3, source=Texts)

    def read(rank, cache):
        for number in range(COUNT):
            check_text(cache[number], number)

    sharing.run(read)
    sharing.run(read)
    assert sharing.sum("from_peers") > COUNT
    assert sharing.sum("damaged") == 0
    sharing.close()


@pytest.mark.parametrize(
    "leaf",
    [
        echobuf.Ragged(np.arange(3), np.array([0, 3])),
        torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    ],
    ids=["Ragged", "nested"],
)
def test_batches_are_no_items(leaf):
    cached = CachedDataset([{"t": leaf}], 10_000)
    with pytest.raises(echobuf.SpecError, match=r"`item\['t'\]` is of type .*prepare"):
        cached[0]
