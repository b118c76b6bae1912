"""Resuming in an epoch's last tenth, with torchdata's StatefulDataLoader.

Each example takes `--example-ms` to read. A loader is stopped at 90 % of its batches;
another one goes on from its state. Counted are the examples that are read again though
nothing needs them any more; measured is the time to the first batch, less what reading
takes of the examples that lay in the window, which have to be read again. Beside it the
same without upstream's part of the state: upstream is then read from its start.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from typing import Any

import torch
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from echobuf.cli.bench.report import write_figures
from echobuf.loader.states import Stateful
from echobuf.torch import EchoLoader
from running import make_parser
from sampling import RESULTS

BATCH = 64
WINDOW = 1024
FACTOR = 2
WORKERS = (0, 2)
# torchdata 0.11 with torch 2.13
warnings.filterwarnings("ignore", "'set_vital' is deprecated", UserWarning)


class Slow(Dataset[torch.Tensor]):
    """Counts what is read of it, in workers, too."""

    def __init__(self, length: int, seconds: float) -> None:
        self.reads = torch.zeros(length, dtype=torch.int32).share_memory_()
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.reads)

    def __getitem__(self, number: int) -> torch.Tensor:
        self.reads[number] += 1
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((16,), float(number))


def upstream_of(data: Slow, workers: int) -> StatefulDataLoader[torch.Tensor]:
    torch.manual_seed(0)  # what the state holds; for the candidate without it
    return StatefulDataLoader(data, BATCH, shuffle=True, num_workers=workers)


def loader_of(upstream: Any) -> EchoLoader:
    return EchoLoader(upstream, window=WINDOW, factor=FACTOR)


def stopped_at(share: float, length: int, workers: int) -> tuple[str, torch.Tensor]:
    """Return a loader's state at a share of an epoch, and its next batch."""
    loader = loader_of(upstream_of(Slow(length, 0.0), workers))
    epoch = iter(loader)
    for _ in range(round(share * len(loader))):
        next(epoch)
    state = json.dumps(loader.state_dict())
    return state, next(epoch)


def resume(
    state: dict[str, Any], data: Slow, workers: int, expected: torch.Tensor
) -> dict[str, float]:
    """Resume a loader; return the seconds to its first batch, and its reads."""
    upstream = upstream_of(data, workers)
    begin = time.perf_counter()
    loader = loader_of(upstream)
    loader.load_state_dict(state)
    epoch = iter(loader)
    first = next(epoch)
    seconds = time.perf_counter() - begin
    assert torch.equal(first, expected)
    for _ in epoch:
        pass
    needed = len(data) - state["fresh_offset"]
    return {"seconds": seconds, "again": int(data.reads.sum()) - needed}


def seconds_an_example(data: Slow, workers: int, batches: int = 8) -> float:
    """Time upstream alone, without its start."""
    items = iter(upstream_of(data, workers))
    next(items)
    begin = time.perf_counter()
    for _ in range(batches):
        next(items)
    return (time.perf_counter() - begin) / (batches * BATCH)


def seconds_a_state(length: int, workers: int, calls: int = 200) -> tuple[float, ...]:
    """Time upstream's state between two items: made, and also kept."""
    upstream = upstream_of(Slow(length, 0.0), workers)
    kept = Stateful(upstream)
    items = iter(upstream)
    rows = []
    for number in range(min(calls, length // BATCH - 1)):
        next(items)
        begin = time.perf_counter()
        upstream.state_dict()
        asked = time.perf_counter()
        kept.take(number)
        rows.append((asked - begin, time.perf_counter() - asked))
    return tuple(statistics.median(column) for column in zip(*rows, strict=True))


def measure(length: int, seconds: float, workers: int, rounds: int) -> dict[str, Any]:
    """Measure both candidates with `workers` workers, in turn."""
    text, expected = stopped_at(0.9, length, workers)
    state = json.loads(text)
    resident = state["position"]["resident_end"] - state["fresh_offset"]
    without = {key: state[key] for key in state if key != "upstream"}
    runs: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    an_example = []
    for _ in range(rounds):
        an_example.append(seconds_an_example(Slow(length, seconds), workers))
        for name, taken in (("with", state), ("without", without)):
            data = Slow(length, seconds)
            runs[name].append(resume(taken, data, workers, expected))
    reading = resident * statistics.median(an_example)
    asked, kept = seconds_a_state(length, workers)
    return {
        "fresh_offset": state["fresh_offset"],
        "resident": resident,
        "reading_resident_s": reading,
        "state_bytes": len(text),
        "upstream_state_bytes": len(json.dumps(state["upstream"])),
        "upstream_state_dict_us": 1e6 * asked,
        "kept_us": 1e6 * kept,
        "results": {name: summary(each, reading) for name, each in runs.items()},
    }


def summary(runs: list[dict[str, float]], reading: float) -> dict[str, Any]:
    seconds = [run["seconds"] for run in runs]
    return {
        "first_batch_s": statistics.median(seconds),
        "beyond_reading_resident_s": statistics.median(seconds) - reading,
        "rounds_s": seconds,
        "read_though_not_needed": max(run["again"] for run in runs),
    }


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--example-ms", type=float, default=1.0)
    options.add_argument("--length", type=int, default=10_000)
    options.set_defaults(rounds=5)
    chosen = options.parse_args()
    results = {}
    print("workers  upstream's state  first batch  beyond reading  not needed, read")
    for workers in WORKERS:
        row = measure(chosen.length, chosen.example_ms * 1e-3, workers, chosen.rounds)
        results[str(workers)] = row
        for name, one in row["results"].items():
            print(
                f"{workers:7}  {name:>16}  {one['first_batch_s']:9.3f} s "
                f"{one['beyond_reading_resident_s']:13.3f} s "
                f"{one['read_though_not_needed']:17}",
                flush=True,
            )
    write_figures(
        "resume_stateful",
        chosen.out,
        {
            "unit": "seconds to the first batch of a loader that was resumed at 90 %",
            "batch_size": BATCH,
            "window": WINDOW,
            "factor": FACTOR,
            "length": chosen.length,
            "example_ms": chosen.example_ms,
            "workers": results,
        },
    )


if __name__ == "__main__":
    main()
