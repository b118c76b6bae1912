#!/usr/bin/env bash
# tonic 1.7.0: ToFrame loses the last events, and counts in int16 that wrap round
#
# Without include_incomplete=True events after the last whole slice belong to no frame; where
# a number of bins is given, that is what the division leaves over. A pixel that sees more
# than 32,767 events in a slice has a negative count.
#
# Seen, events in frames:
# 10 events, n_time_bins=3: 9
# 10 events, n_event_bins=4: 8
# 10 events, time_window=5000: 5
# 40000 events at one pixel, n_time_bins=1: -25537
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tonic==1.7.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from tonic.transforms import ToFrame

EVENT = np.dtype([("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "i1")])


def counted(events, **bins):
    recording = np.zeros(events, EVENT)
    recording["t"] = np.arange(events) * 1000
    frames = ToFrame(sensor_size=(4, 4, 2), **bins)(recording)
    total = int(frames.sum(dtype=np.int64))
    print(events, "events,", bins, "->", total, frames.dtype)
    return total


assert counted(10, n_time_bins=3) == 9
assert counted(10, n_event_bins=4) == 8
assert counted(10, time_window=5000) == 5
assert counted(40000, n_time_bins=1) == -25537
PYTHON
