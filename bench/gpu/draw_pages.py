"""Records of 4 KB: batches of 4,096 drawn from 1,000,000, on the device.

Beside a device-to-device copy of the same bytes, and selections by an index that lies
on the device. All of it is queued behind a delay, without the host's time.
"""

import sys

from ask import Question, scaled
from draw_images import DRAWS
from script import main

SETTINGS = {
    "fields": {"page": [[4096], "uint8"]},
    "key": "page",
    "records": 1_000_000,
    "batch": 4096,
    "batches": 50,
}
QUESTIONS = (
    Question(
        name="gpu_draw_pages",
        aim="0.8 of a copy on the device; as fast as index_select and take",
        unit="batch",
        reference="copy on the device",
        candidates=DRAWS,
        clock="device",
        settings=SETTINGS,
        tiny=scaled(SETTINGS, 1000, fields={"page": [[64], "uint8"]}),
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
