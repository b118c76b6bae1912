"""Large records: batches of 1,024 x 150,528 bytes drawn from 32,768, on the device.

The yardstick is a device-to-device copy of the same bytes. All of it is queued behind a
delay, so that the host's time is not in it.
"""

import sys

from ask import Candidate, Question, scaled
from script import main
from selects import Copy, Cupy, Torch
from window import Draw

RESIDENT = {"index": "resident"}
DRAWS = (
    Candidate("copy on the device", Copy),
    Candidate("echobuf out=", Draw, {"out": True}),
    Candidate("echobuf", Draw),
    Candidate("torch.index_select, resident index", Torch, RESIDENT, peer=True),
    Candidate("cupy.take, resident index", Cupy, RESIDENT, peer=True),
)
SETTINGS = {
    "fields": {"image": [[224, 224, 3], "uint8"]},
    "key": "image",
    "records": 32_768,
    "batch": 1024,
    "batches": 8,
}
QUESTIONS = (
    Question(
        name="gpu_draw_images",
        aim="0.9 of a copy on the device",
        unit="batch",
        reference="copy on the device",
        candidates=DRAWS,
        clock="device",
        settings=SETTINGS,
        tiny=scaled(SETTINGS, 64, fields={"image": [[14, 14, 3], "uint8"]}),
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
