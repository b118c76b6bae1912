"""The host's time of a draw: from Python, and as the replay of a CUDA graph.

256 records of two fields, and of 32: 200 draws are queued, then the device is waited
for, outside the time.
"""

import sys

from ask import Candidate, Question, scaled
from script import main
from selects import Torch
from window import Draw, Replay

_MANY = {
    "fields": {f"x{i}": [[1], "float32"] for i in range(31)} | {"y": [[], "int64"]}
}
_OUT = {"out": True}

_SETTINGS = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 100_000,
    "batch": 256,
    "batches": 200,
}

QUESTIONS = (
    Question(
        name="gpu_host_time",
        aim="10 us from Python; a graph's does not grow with the fields",
        unit="draw",
        reference="torch.randint, index_select",
        candidates=(
            Candidate("torch.randint, index_select", Torch, peer=True),
            Candidate("echobuf", Draw),
            Candidate("echobuf out=", Draw, _OUT),
            Candidate("echobuf, graph", Replay, peer=True),
            Candidate("torch, 32 fields", Torch, _MANY, peer=True),
            Candidate("echobuf, 32 fields", Draw, _MANY, reference="torch, 32 fields"),
            Candidate(
                "echobuf out=, 32 fields",
                Draw,
                {**_MANY, **_OUT},
                reference="torch, 32 fields",
            ),
            Candidate(
                "echobuf, graph, 32 fields",
                Replay,
                _MANY,
                peer=True,
                reference="torch, 32 fields",
            ),
        ),
        clock="host",
        settings=_SETTINGS,
        tiny=scaled(_SETTINGS, 125, batch=2),
        rounds=31,
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
