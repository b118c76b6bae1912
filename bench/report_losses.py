"""Time of `report` for the losses of a batch of 256, from the host's side.

Losses in host memory count at once; those in the memory of a device are copied to the
host on the caller's stream, and nothing waits for them. The device is that of the
simulated driver, which notes and checks every copy, and then one whose driver does
nothing, so that what is timed is the host's part alone. Each batch is drawn, and its
report alone is timed: the median of a thousand, since threads of the simulated driver
take the processor in between. It needs a C++ compiler, and no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from echobuf.cuda.losses import Losses

import echobuf
from echobuf import _core
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from echobuf.cuda.device import set_opener
from echobuf.spec import Spec
from echobuf.testing import simulated_cuda
from null_device import NullArrays, NullDevice, built

HERE = Path(__file__).parent
BATCH, WINDOW = 256, 4096
BATCHES, ROUNDS = 1_000, 11


class Arrays(NullArrays):
    """Arrays whose losses are said to be on the device."""

    def losses(self, index: Any, loss: Any, *, whole: bool) -> Losses:
        found = _core.loss_vectors(index, loss)
        assert found is not None
        _, _, numbers, place, kind, count, one = found
        return numbers, place, kind, count, one, 0, None


class Device(NullDevice):
    """A device of the driver that does nothing, with such arrays."""

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> Arrays:
        return Arrays(spec, lead, 0, self.block)


@contextmanager
def on_null_driver(library: Path) -> Iterator[None]:
    set_opener(lambda ordinal: Device(library, 0))
    try:
        yield
    finally:
        set_opener(None)


def losses_on(device: str) -> Any:
    """Return losses of a batch, on the device."""
    values = np.linspace(0, 1, BATCH, dtype=np.float32)
    if device == "cpu":
        return values
    with echobuf.EchoBuffer(
        values, batch_size=1, window=1, factor=1, device=device
    ) as buffer:
        buffer.put(values)
        buffer.close()
        return buffer.next_batch()[0]


def seconds_a_report(device: str) -> float:
    """Return the median of a thousand batches' reports."""
    loss = losses_on(device)
    with echobuf.EchoBuffer(
        np.float32(0),
        batch_size=BATCH,
        window=WINDOW,
        factor="auto",  # with no upstream left: as often as may be
        max_factor=1000,
        with_info=True,
        reuse="loss",
        device=device,
    ) as buffer:
        buffer.put_batch(np.zeros(WINDOW, np.float32), timeout=60)
        taken = []
        for _ in range(BATCHES):
            _, info = buffer.next_batch(timeout=60)
            start = time.perf_counter()
            buffer.report(info, loss)
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    taken_in = environment()
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        for _ in range(options.rounds):
            taken.setdefault("host", []).append(seconds_a_report("cpu"))
            with simulated_cuda(1):
                on_device = seconds_a_report("cuda")
            taken.setdefault("device, simulated driver", []).append(on_device)
            with on_null_driver(library):
                on_device = seconds_a_report("cuda")
            taken.setdefault("device, driver that does nothing", []).append(on_device)
    results = {
        name: {
            "median_s": statistics.median(rounds),
            "min_s": min(rounds),
            "max_s": max(rounds),
        }
        for name, rounds in taken.items()
    }
    for name, row in results.items():
        print(
            f"{name}: {row['median_s'] * 1e6:.2f} us a report "
            f"({row['min_s'] * 1e6:.2f} to {row['max_s'] * 1e6:.2f})"
        )
    write_figures(
        "report_losses",
        options.out,
        {"batch_size": BATCH, "rounds": options.rounds, "results": results},
        taken_in=taken_in,
    )


if __name__ == "__main__":
    main()
