"""factor=1 in place of the shuffle buffers of streams: rows a second, and the mixing.

30,000 rows of 136 bytes in local files, which Hugging Face datasets, webdataset and
Ray Data stream through a shuffle buffer of 3,000 rows, or echobuf through a window of
as many. Each library is its own reference. With `--quality` no time is taken: the
orders of both kinds of shuffling are compared.
"""

import itertools
import random
from pathlib import Path

import numpy as np

import echobuf
from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.report import write_figures
from running import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.stream_shuffle"
LIBRARIES = {
    "Hugging Face datasets": "HuggingFace",
    "webdataset": "Webdataset",
    "Ray Data": "RayData",
}


def of_library(name: str, kind: str) -> tuple[Candidate, ...]:
    """Return a library's own shuffle buffer, and echobuf behind the library."""
    theirs = f"{name}, its shuffle"
    forms = ("batches",) if kind == "RayData" else ("rows", "batches")
    return (
        Candidate(theirs, f"{TARGET}:{kind}", reference=theirs),
        *(
            Candidate(
                f"{name}, echobuf of {form}",
                f"{TARGET}:{kind}",
                {"echobuf": form},
                reference=theirs,
            )
            for form in forms
        ),
    )


QUESTION = Question(
    "streaming_shuffle",
    "row",
    tuple(itertools.chain(*(of_library(*each) for each in LIBRARIES.items()))),
    reference="Hugging Face datasets, its shuffle",
    settings={
        "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
        "key": "y",
        "records": 30_000,
        "buffer": 3_000,
        "batch": 256,
        "limit_s": 0.0,
    },
    path=(HERE,),
    timeout_s=300,
)


# ---- how well mixed


def of_buffer(rows: int, size: int) -> np.ndarray:
    """Return the order of a shuffle buffer that gives a random row for each new one."""
    source, chosen, order = iter(range(rows)), random.Random(0), []
    held = list(itertools.islice(source, size))
    for new in source:
        at = chosen.randrange(size)
        order.append(held[at])
        held[at] = new
    chosen.shuffle(held)
    return np.array(order + held)


def of_echobuf(rows: int, size: int) -> np.ndarray:
    """Return the order of a loader with factor 1 and a window of that size."""
    loader = echobuf.EchoLoader(range(rows), batch_size=100, window=size, factor=1)
    return np.concatenate(list(loader))


def mixing(order: np.ndarray, size: int, batch: int) -> dict[str, float]:
    """Measure an order of rows, in shares of the buffer's size.

    Of the middle half, without filling and draining: the spread (standard deviation)
    of the rows of a batch, the distance that rows move beyond the mean, and the share
    of neighbours in the source that come in one batch.
    """
    rows, quarter = len(order), len(order) // 4
    middle = order[quarter : 3 * quarter]
    middle = middle[: len(middle) // batch * batch]
    moved = np.arange(rows)[quarter : quarter + len(middle)] - middle
    batch_of = np.full(rows, -1)
    batch_of[middle] = np.arange(len(middle)) // batch
    pairs = (batch_of[:-1] >= 0) & (batch_of[1:] >= 0)
    together = (batch_of[:-1] == batch_of[1:])[pairs].mean()
    return {
        "spread_of_a_batch": float(middle.reshape(-1, batch).std(1).mean() / size),
        "distance_moved": float(np.abs(moved - moved.mean()).mean() / size),
        "neighbours_in_a_batch": float(together),
    }


def quality(out: Path) -> None:
    """Print and write both measures."""
    rows, size, batch = 400_000, 10_000, 250
    figures = {
        "shuffle buffer, 10,000 rows": mixing(of_buffer(rows, size), size, batch),
        "echobuf, window of 10,000 rows": mixing(of_echobuf(rows, size), size, batch),
        "shuffle buffer, 20,000 rows": mixing(of_buffer(rows, 2 * size), size, batch),
    }
    for name, figure in figures.items():
        print(name, *(f"{key} {value:.4g}" for key, value in figure.items()), sep=", ")
    versions = {"echobuf": echobuf.__version__, "numpy": np.__version__}
    content = {"versions": versions, "mixing": figures}
    write_figures("streaming_shuffle_quality", out, content)


if __name__ == "__main__":
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--quality", action="store_true", help="compare the orders")
    options = parser.parse_args()
    if options.quality:
        quality(options.out)
    else:
        run(QUESTION, options)
