"""factor=1 as a shuffle buffer: a window of 10^6 records of 136 bytes.

1,500,000 rows of a table in memory, in batches of 256; filling and draining the buffer
are in the time. What comes out is checked once: each row, once.
"""

from echobuf.cli.bench import Candidate, Question
from running import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.shuffle_rows"

QUESTION = Question(
    "shuffle_buffer",
    "row",
    (
        Candidate("echobuf, NumPy columns", f"{TARGET}:Echobuf"),
        Candidate("echobuf, Arrow", f"{TARGET}:Echobuf", {"arrow": True}),
        Candidate("Hugging Face datasets, streaming", f"{TARGET}:HuggingFace"),
        Candidate("webdataset", f"{TARGET}:Webdataset"),
    ),
    reference="echobuf, NumPy columns",
    settings={
        "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
        "key": "y",
        "records": 1_500_000,
        "buffer": 1_000_000,
        "rows": 4096,
        "batch": 256,
        "limit_s": 600,
    },
    path=(HERE,),
    timeout_s=600,
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
