"""Hit rates of a cache that never evicts, beside LRU of the same size, and time saved.

Every epoch reads each item once, in a new order. Never evicting should serve the share
s of the data that fits; LRU, in the mean, s + (1 - s) ln(1 - s): of what it holds, much
is evicted before it is wanted. The source sleeps before each item, as a slow storage
does.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf.cache import CachedDataset
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from running import make_parser
from sampling import RESULTS

SHARES = (0.35, 0.5, 0.65)
SEED = 7
BARE = "no cache"


class Source:
    """Items in memory, each behind a delay.

    Attributes:
        reads: how many were read.
    """

    def __init__(self, items: list[Any], delay_s: float) -> None:
        self.items = items
        self.delay_s = delay_s
        self.reads = 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        self.reads += 1
        time.sleep(self.delay_s)
        return self.items[number]


class LRU:
    """Holds what was used last; references, without a checksum or a copy."""

    def __init__(self, source: Source, max_bytes: int) -> None:
        self.source = source
        self.left = max_bytes
        self.kept: OrderedDict[int, Any] = OrderedDict()

    def __getitem__(self, number: int) -> Any:
        if number in self.kept:
            self.kept.move_to_end(number)
            return self.kept[number]
        item = self.kept[number] = self.source[number]
        self.left -= size_of(item)
        while self.left < 0:
            self.left += size_of(self.kept.popitem(last=False)[1])
        return item


def images(count: int) -> list[Any]:
    """Return prepared items: arrays of one size."""
    chance = np.random.default_rng(SEED)
    return list(chance.integers(0, 256, (count, 64, 64, 3), np.uint8))


def files(count: int) -> list[Any]:
    """Return raw items: as many bytes in the mean, a third to 5 / 3 of that each."""
    chance = np.random.default_rng(SEED)
    return [chance.bytes(size) for size in chance.integers(4096, 20480, count)]


DATA = {"arrays of 64x64x3": images, "files of 4 to 20 KB": files}


def size_of(item: Any) -> int:
    return item.nbytes if isinstance(item, np.ndarray) else len(item)


class Run:
    """Epochs over one cache: hit rates and times, those of the first apart."""

    def __init__(
        self, items: list[Any], make: Callable[[Source], Any], delay_s: float
    ) -> None:
        self._items = len(items)
        self._source = Source(items, delay_s)
        self._cache = make(self._source)
        self._chance = np.random.default_rng(SEED)
        self._rates: list[float] = []
        self._seconds: list[float] = []

    def epoch(self) -> None:
        """Read all items once, in a random order that is the same for all caches."""
        order = self._chance.permutation(self._items).tolist()
        before, start = self._source.reads, time.perf_counter()
        for number in order:
            self._cache[number]
        self._seconds.append(time.perf_counter() - start)
        self._rates.append(1 - (self._source.reads - before) / self._items)

    @property
    def rounds_s(self) -> list[float]:
        """Return the seconds of the epochs that count."""
        return self._seconds[1:]

    def figures(self, bare: Run) -> dict[str, Any]:
        """Return hit rates and times, and the time saved beside `bare`."""
        if isinstance(self._cache, CachedDataset):
            assert self._cache.stats().misses == self._source.reads
            assert self._cache.stats().damaged == 0
        ratio = paired_ratio(self.rounds_s, bare.rounds_s)
        return {
            "hit_rate": statistics.mean(self._rates[1:]),
            "hit_rates": self._rates,
            "epoch_s": statistics.median(self.rounds_s),
            "first_epoch_s": self._seconds[0],
            "saved": 1 - ratio.median,
            "ratio_range": ratio.range,
        }


def compare(
    items: list[Any], share: float, delay_s: float, epochs: int
) -> dict[str, Any]:
    """Compare all ways to keep this share of the items, by turns of an epoch."""
    max_bytes = int(share * sum(map(size_of, items)))
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[Source], Any]] = {
            BARE: lambda source: source,
            "echobuf, memory": lambda source: CachedDataset(source, max_bytes),
            "echobuf, disk": lambda source: CachedDataset(
                source, max_bytes, directory=folder, identity="bench"
            ),
            "LRU": lambda source: LRU(source, max_bytes),
        }
        runs = {name: Run(items, make, delay_s) for name, make in ways.items()}
        for _ in range(epochs):
            for run in runs.values():
                run.epoch()
        return {name: run.figures(runs[BARE]) for name, run in runs.items()}


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--items", type=int, default=3000)
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--delay-us", type=float, default=1000.0)
    chosen = options.parse_args()
    results: dict[str, Any] = {}
    worst = 0.0
    print(f"{'':40}{'hit rate':>9} {'expected':>9} {'s an epoch':>11} {'saved':>6}")
    for kind, make in DATA.items():
        items = make(chosen.items)
        print(kind)
        results[kind] = {}
        for share in SHARES:
            rows = compare(items, share, chosen.delay_us * 1e-6, chosen.epochs)
            results[kind][str(share)] = rows
            for name, row in rows.items():
                lru = share + (1 - share) * math.log(1 - share)
                row["expected"] = {"LRU": lru, BARE: 0.0}.get(name, share)
                print(
                    f"  {share:.0%} fit, {name:26}{row['hit_rate']:9.4f} "
                    f"{row['expected']:9.4f} {row['epoch_s']:11.3f} "
                    f"{row['saved']:6.1%}",
                    flush=True,
                )
                if name.startswith("echobuf"):
                    worst = max(worst, abs(row["hit_rate"] - share))
    print(f"hit rate from the share that fits: {worst:.4f} at most")
    write_figures(
        "cache",
        chosen.out,
        {
            "unit": "share of items served from the cache, from the second epoch on",
            "items": chosen.items,
            "epochs": chosen.epochs,
            "delay_us": chosen.delay_us,
            "worst_difference": worst,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
