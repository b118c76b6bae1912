"""Examples that differ in length: draws, puts and memory of the window.

Packed and padded batches of 256 token sequences (int32, log-normal lengths, mean 512,
cut at 8,192) from 32,768 (67 MB), beside torch, NumPy, Arrow, TorchRL and Hugging Face
datasets, and packed ones beside a streaming copy of the tokens in them; what a put of a
ragged example costs beside one of a fixed shape and the same size; and how much memory
full windows take, over the bytes of the examples in them.
"""

from __future__ import annotations

from typing import Any

from echobuf.cli.bench import Candidate, Question, measure
from echobuf.cli.bench.report import figures, print_table, write_figures
from echobuf.cli.environment import environment
from ragged_memory import memories, print_memories
from ragged_puts import print_puts, puts
from running import make_parser, select
from sampling import HERE, RESULTS

ROWS, TORCH = "peers.ragged_rows", "peers.ragged_torch"
SETTINGS: dict[str, Any] = {
    "records": 32_768,
    "mean": 512,
    "sigma": 1.0,
    "longest": 8192,
    "batch": 256,
    "batches": 64,
    "chunks": 4,
    "limit_s": 0.2,
}
PACKED = Question(
    "ragged_packed",
    "batch",
    (
        Candidate("streaming copy", f"{ROWS}:StreamingCopy"),
        Candidate("plain copy", f"{ROWS}:Copy"),
        Candidate("echobuf", f"{ROWS}:Echobuf"),
        Candidate("numpy.concatenate", f"{ROWS}:Concatenate"),
        Candidate("torch.cat", f"{TORCH}:Cat"),
        Candidate("torch.nested", f"{TORCH}:Nested"),
        Candidate("pyarrow take", f"{ROWS}:ArrowTake"),
        Candidate("TorchRL LazyStackStorage", f"{TORCH}:TorchRL"),
        Candidate("HF datasets, numpy", f"{ROWS}:Datasets"),
        Candidate("HF datasets, arrow", f"{ROWS}:ArrowDatasets"),
    ),
    reference="streaming copy",
    settings={**SETTINGS, "form": "packed"},
    path=(HERE,),
)
PADDED = Question(
    "ragged_padded",
    "batch",
    (
        Candidate("echobuf", f"{ROWS}:Echobuf"),
        Candidate("numpy.zeros, rows assigned", f"{ROWS}:FullOfZeros"),
        Candidate("torch pad_sequence", f"{TORCH}:PadSequence"),
        Candidate("TorchRL, padded", f"{TORCH}:PaddedTorchRL"),
        Candidate("HF DataCollatorWithPadding", f"{TORCH}:Collator"),
    ),
    reference="echobuf",
    settings={**SETTINGS, "form": "padded"},
    path=(HERE,),
)


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=[*PARTS], help="only these parts"
    )
    options = parser.parse_args()
    about = environment()
    content = {part: PARTS[part](options) for part in options.parts}
    write_figures("ragged", options.out, content, taken_in=about)


def draws(question: Question) -> Any:
    """Return a function that measures the question and prints its table."""

    def measured(options: Any) -> dict[str, Any]:
        chosen = select(question, options)
        outcomes = measure(chosen, options.rounds)
        print_table(chosen, outcomes)
        return {"settings": dict(question.settings), **figures(chosen, outcomes)}

    return measured


def put_part(options: Any) -> dict[str, Any]:
    """Measure puts, and print them."""
    found = puts(options.rounds)
    print_puts(found)
    return found


def memory_part(_: Any) -> dict[str, Any]:
    """Measure windows, and print them."""
    found = memories()
    print_memories(found)
    return found


PARTS = {
    "packed": draws(PACKED),
    "padded": draws(PADDED),
    "puts": put_part,
    "memory": memory_part,
}


if __name__ == "__main__":
    main()
