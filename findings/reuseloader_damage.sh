#!/usr/bin/env bash
# reuseloader 0.1.0: an item of which a byte has changed on the disk is served as it is
#
# "A damaged file that cannot be read is made again", says the README. torch.save writes an
# archive with a CRC-32 of each tensor, but torch.load does not look at it: a flipped bit, or a
# page that was never written before the power went, is a file that can be read. The
# generation in it is right, so the item is served for the rest of its lifetime.
#
# Seen:
# made again: [], values served: [6, 7]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q reuseloader==0.1.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import torch
from reuseloader import ReuseDataset, ReusePolicy

made = []


def build(key):
    made.append(key.index)
    return torch.full((1000,), 7, dtype=torch.uint8)


dataset = ReuseDataset(build, 1, Path(sys.argv[1]) / "cache", ReusePolicy(1000))
dataset[0]
data = bytearray(dataset.path(0).read_bytes())
data[data.find(bytes([7] * 1000)) + 500] ^= 1
dataset.path(0).write_bytes(data)
made.clear()
served = sorted(set(dataset[0].tolist()))
print(f"made again: {made}, values served: {served}")
assert made == [] and served == [6, 7]
PYTHON
