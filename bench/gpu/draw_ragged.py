"""Token sequences that differ in length: packed and padded draws of 256 from 32,768.

int32, log-normal lengths, mean 512, cut at 8,192 (67 MB). Packed ones beside a copy of
as many bytes on the device, a gather by an index of every token, and `torch.cat` of a
list of resident tensors; padded ones beside `pad_sequence`.
"""

import sys
from dataclasses import replace

from ask import Candidate, Question, scaled
from ragged_window import Cat, Copy, Draw, Gather, PadSequence
from script import main

_SETTINGS = {
    "form": "packed",
    "records": 32_768,
    "mean": 512,
    "longest": 8192,
    "batch": 256,
    "batches": 64,
}
_PACKED = Question(
    name="gpu_draw_ragged",
    aim="0.9 of a copy of the useful bytes; 5 times the best of the others",
    unit="batch",
    reference="copy",
    candidates=(
        Candidate("copy", Copy),
        Candidate("echobuf", Draw),
        Candidate("echobuf pad_to=4096", Draw, {"pad_to": 4096}),
        Candidate("torch gather of tokens", Gather, peer=True),
        Candidate("torch.cat of a list", Cat, peer=True),
    ),
    clock="events",
    settings=_SETTINGS,
    tiny=scaled(_SETTINGS, 32, mean=16, longest=256),
)
QUESTIONS = (
    _PACKED,
    replace(
        _PACKED,
        name="gpu_draw_ragged_padded",
        aim="faster than pad_sequence",
        candidates=(
            Candidate("copy", Copy),
            Candidate("echobuf", Draw),
            Candidate("torch pad_sequence", PadSequence, peer=True),
        ),
        settings={**_PACKED.settings, "form": "padded"},
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
