"""Bytes between ranks that share a cache, and the imbalance of their shares.

Four ranks read epochs of the same global batches: without a cache, each with a cache of
its own, with partitioned caching, and locality-aware; the bytes are counted. Then the
imbalance before balancing is simulated: what ranks lack of a global batch, summed, over
its size. In one column the examples fall to ranks at random, as balls into bins; in the
other they are those of `LocalitySampler`'s sequence, dealt by it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from sampling import RESULTS

SHAPE = (64, 64, 3)
SEED = 7
LOCAL_BATCHES = (32, 64, 128)
PAPER = {32: 0.069, 64: 0.048, 128: 0.034}
"""Yang & Cong 2019, the medians of their figure 6, as others quote them."""
IMAGENET = 1_281_167
FITS = (1.0, 0.5)
"""Shares of the data that all caches hold together."""
WAYS = ("no cache", "own caches", "partitioned", "locality-aware")


# ---- four ranks


class Source:
    """Items made from their numbers, and counted.

    Attributes:
        bytes: of all that was read.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.bytes = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        item = np.full(SHAPE, number % 251, np.uint8)
        self.bytes += item.nbytes
        return item


def rank_of(way: str, items: int, epochs: int, batch_size: int, fits: float) -> None:
    """Run one rank, and print its bytes of each epoch."""
    import torch
    import torch.distributed as dist
    from torch.utils.data import BatchSampler
    from torch.utils.data.distributed import DistributedSampler

    from echobuf.cache import CachedDataset
    from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
    from echobuf.cache.items import ItemEncoder

    dist.init_process_group("gloo")
    source = Source(items)
    share = -(-items // dist.get_world_size())
    max_bytes = int(fits * share) * ItemEncoder(source[0]).size
    cache: Any = source
    if way == "own caches":
        cache = CachedDataset(source, max_bytes)
    elif way != "no cache":
        cache = PartitionedDataset(source, max_bytes)
    sampler: Any = DistributedSampler(source, seed=SEED)
    if way == "locality-aware":
        sampler = LocalitySampler(cache, batch_size=batch_size, seed=SEED)
    said = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        source.bytes, before = 0, _sent(cache)
        for batch in BatchSampler(sampler, batch_size, drop_last=False):
            for number in batch:
                assert (cache[number] == number % 251).all()
            dist.all_reduce(torch.ones(1))  # a step, which keeps ranks together
        after = _sent(cache)
        moved = {name: after[name] - before[name] for name in after}
        said.append({"storage_bytes": source.bytes, **moved})
    sys.stdout.write(
        json.dumps(said) + "\n"
    )  # in one go: ranks share what they write to
    dist.barrier()
    dist.destroy_process_group()


def _sent(cache: Any) -> dict[str, int]:
    """Return the bytes received from ranks, and sent to ranks to keep."""
    if not hasattr(cache, "close"):
        return {}
    stats = cache.stats()
    return {"peer_bytes": stats.peer_bytes, "given_bytes": stats.given_bytes}


def run(way: str, chosen: argparse.Namespace, fits: float) -> list[dict[str, int]]:
    """Return the bytes of all ranks, by epoch."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    arguments = [way, chosen.items, chosen.epochs, chosen.batch_size, fits]
    done = subprocess.run(
        [
            *[*torchrun, "--nproc-per-node", str(chosen.ranks)],
            *[__file__, "--rank-of", *map(str, arguments)],
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    ranks = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("[")]
    assert len(ranks) == chosen.ranks
    return [
        {name: sum(rank[name] for rank in epoch) for name in epoch[0]}
        for epoch in zip(*ranks, strict=True)
    ]


def count_bytes(chosen: argparse.Namespace) -> dict[str, Any]:
    """List the ways, with caches that hold all or half of the data together."""
    data = chosen.items * int(np.prod(SHAPE))
    names = ("storage_bytes", "peer_bytes", "given_bytes")
    found: dict[str, Any] = {"bytes_of_data": data}
    print(
        f"{chosen.ranks} ranks; bytes over those of the data, first epoch | later ones"
    )
    print(f"{'':32}{'storage':>16}{'from peers':>16}{'given':>16}")
    for fits in FITS:
        for way in WAYS:
            epochs = run(way, chosen, fits)
            row = {
                name: {
                    "first": epochs[0].get(name, 0) / data,
                    "later": float(np.mean([e.get(name, 0) for e in epochs[1:]]))
                    / data,
                }
                for name in names
            }
            found[f"{fits:.0%} fit, {way}"] = {"shares": row, "epochs": epochs}
            shown = "".join(
                f"{row[name]['first']:9.4f}|{row[name]['later']:.4f}" for name in names
            )
            print(f"{f'{fits:.0%} fit, {way}':32}{shown}", flush=True)
    return found


# ---- many ranks, simulated


def thrown(
    ranks: int, part: int, trials: int, chance: np.random.Generator
) -> list[float]:
    """Return imbalances of global batches whose examples fall to ranks at random."""
    from echobuf.cache.distributed.sampler import imbalance

    counts = chance.multinomial(part * ranks, np.full(ranks, 1 / ranks), trials)
    return [imbalance(each) for each in counts]


def dealt(
    ranks: int, part: int, trials: int, chance: np.random.Generator
) -> list[float]:
    """Return the shares that move, for shuffled epochs of ImageNet's length."""
    from echobuf.cache.distributed.membership import owners
    from echobuf.cache.distributed.sampler import assign

    found: list[float] = []
    holders = owners(IMAGENET, ranks)
    while len(found) < trials:
        order = chance.permutation(IMAGENET)
        whole = part * ranks
        for begin in range(0, IMAGENET - whole + 1, whole):
            held = holders[order[begin : begin + whole]]
            found.append(float((assign(held, ranks) != held).mean()))
            if len(found) == trials:
                break
    return found


def simulate(trials: int, most: int) -> dict[str, Any]:
    """Return imbalances for 2, 4, 8 ... ranks."""
    chance = np.random.default_rng(SEED)
    ranks = [2**power for power in range(1, most.bit_length()) if 2**power <= most]
    found: dict[str, Any] = {}
    for part in LOCAL_BATCHES:
        rows: dict[str, Any] = {}
        pooled: dict[str, list[float]] = {"thrown": [], "dealt": []}
        print(
            f"local batch {part}: imbalance, median and mean; the paper {PAPER[part]}"
        )
        for count in ranks:
            row = {}
            for name, simulated in (("thrown", thrown), ("dealt", dealt)):
                values = simulated(count, part, trials, chance)
                row[name] = _describe(values)
                pooled[name] += values
            rows[str(count)] = row
            print(
                f"{count:6} ranks  thrown {row['thrown']['median']:.4f} "
                f"{row['thrown']['mean']:.4f}  dealt {row['dealt']['median']:.4f} "
                f"{row['dealt']['mean']:.4f}",
                flush=True,
            )
        whole = {name: _describe(values) for name, values in pooled.items()}
        found[str(part)] = {"paper": PAPER[part], "all": whole, "ranks": rows}
        print(
            f"   all ranks  thrown {whole['thrown']['median']:.4f} "
            f"{whole['thrown']['mean']:.4f}  dealt {whole['dealt']['median']:.4f} "
            f"{whole['dealt']['mean']:.4f}"
        )
    return found


def _describe(values: list[float]) -> dict[str, float]:
    low, median, high = np.quantile(values, [0.05, 0.5, 0.95])
    return {
        "median": float(median),
        "mean": float(np.mean(values)),
        "from_5%": float(low),
        "to_95%": float(high),
        "batches": len(values),
    }


def main() -> None:
    """Run, print and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--most-ranks", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rank-of", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank_of:
        way, items, epochs, batch_size, fits = chosen.rank_of
        rank_of(way, int(items), int(epochs), int(batch_size), float(fits))
        return
    about = environment()
    figures = {
        "unit": "bytes, as a share of those of the data in an epoch; imbalance: what "
        "ranks lack, summed, over the size of the global batch",
        "ranks": chosen.ranks,
        "items": chosen.items,
        "batch_size": chosen.batch_size,
        "counted": count_bytes(chosen),
        "simulated": simulate(chosen.trials, chosen.most_ranks),
    }
    write_figures("locality", chosen.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
