"""Small records: a batch of 256 records of float32[32] and an int64, from 100,000.

Time from Python, shuffling included. `numpy.take` and `torch.index_select` write into
arrays that are used again, and are given for nothing the random index of a pass over
the whole window.
"""

from __future__ import annotations

import numpy as np
import torch

from echobuf import EchoBuffer, Field
from harness import interleave, parser, summarise, timed, write

BATCH = 256
WINDOW = 100_000
REPEAT = 200


def main() -> None:
    options = parser(__doc__).parse_args()
    rng = np.random.default_rng(0)
    x = rng.random((WINDOW, 32), dtype=np.float32)
    y = np.arange(WINDOW)
    spec = {"x": Field((32,), "f4"), "y": Field((), "i8")}
    buffer = EchoBuffer(spec, batch_size=BATCH, window=WINDOW, factor=1)
    out = {"x": np.zeros((BATCH, 32), np.float32), "y": np.zeros(BATCH, np.int64)}

    def filled(call):  # type: ignore[no-untyped-def]
        run = timed(call, REPEAT)

        def candidate() -> float:
            # A pass over the window lasts for 390 batches; begin with a fresh one.
            buffer.reset()
            buffer.put_batch({"x": x, "y": y})
            return run()

        return candidate

    order = rng.permutation(WINDOW)
    indices = np.split(order[: WINDOW // BATCH * BATCH], WINDOW // BATCH)
    tensors = [torch.from_numpy(index) for index in indices]
    x_tensor, y_tensor = torch.from_numpy(x), torch.from_numpy(y)
    x_out, y_out = torch.zeros(BATCH, 32), torch.zeros(BATCH, dtype=torch.int64)
    turn = iter(range(10**9))

    def take() -> None:
        index = indices[next(turn) % len(indices)]
        np.take(x, index, axis=0, out=out["x"], mode="clip")
        np.take(y, index, axis=0, out=out["y"], mode="clip")

    def select() -> None:
        index = tensors[next(turn) % len(tensors)]
        torch.index_select(x_tensor, 0, index, out=x_out)
        torch.index_select(y_tensor, 0, index, out=y_out)

    candidates = {
        "echobuf": filled(buffer.next_batch),
        "echobuf out=": filled(lambda: buffer.next_batch(out=out)),
        "numpy.take(out=)": timed(take, REPEAT),
        "torch.index_select(out=)": timed(select, REPEAT),
    }
    summary = summarise(interleave(candidates, options.rounds))
    own = summary["echobuf"]["median_s"]
    for name, row in summary.items():
        row["times_echobuf"] = row["median_s"] / own
        print(
            f"{name:>25}: {row['median_s'] * 1e6:6.1f} us a batch, "
            f"{row['times_echobuf']:.1f} times echobuf"
        )
    write("small_batches", options.out, {"results": summary})


if __name__ == "__main__":
    main()
