"""Infos of batches: what `with_info=True` adds to a small batch.

Batches of 256 records of 136 bytes, drawn from 100,000 as in `small_batches.py`, with
and without their infos; each record is served eight times.
"""

from dataclasses import replace

from echobuf.cli.bench import Candidate
from echobuf.cli.bench.options import make_parser, run
from echobuf.cli.bench.questions import small
from sampling import RESULTS

INFO = {"with_info": True}
PLAIN = [c for c in small().candidates if c.name in ("echobuf", "echobuf out=")]
QUESTION = replace(
    small(),
    name="batch_info",
    candidates=(
        *PLAIN,
        *(
            Candidate(
                f"{plain.name} with_info",
                plain.target,
                {**plain.settings, **INFO},
                reference=plain.name,
            )
            for plain in PLAIN
        ),
    ),
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
