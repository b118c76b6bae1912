"""Small records: 4,096 of 136 bytes in two fields, from 1,000,000; 100 draws in a row.

By CUDA events around the hundred, so that waits for the host count; and once more
behind a delay, without them. The index that echobuf does not need is made in the time.
"""

import sys
from dataclasses import replace

from ask import Candidate, Question, scaled
from script import main
from selects import Cupy, Torch
from window import Draw

_SETTINGS = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 1_000_000,
    "batch": 4096,
    "batches": 100,
}
_EVENTS = Question(
    name="gpu_draw_small",
    aim="3 times randint and a selection from each field",
    unit="batch",
    reference="torch.randint, index_select",
    candidates=(
        Candidate("torch.randint, index_select", Torch, peer=True),
        Candidate("cupy.random.randint, take", Cupy, peer=True),
        Candidate("cupy Generator, take", Cupy, {"index": "generator"}, peer=True),
        Candidate("echobuf out=", Draw, {"out": True}),
        Candidate("echobuf", Draw),
    ),
    clock="events",
    settings=_SETTINGS,
    tiny=scaled(_SETTINGS, 1000),
)
QUESTIONS = (
    _EVENTS,
    replace(_EVENTS, name="gpu_draw_small_device", clock="device"),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
