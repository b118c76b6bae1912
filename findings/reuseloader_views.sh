#!/usr/bin/env bash
# reuseloader 0.1.0: an item that is a view of a tensor takes the whole tensor on the disk
#
# Items are written by torch.save, which writes the storage of a tensor, not the part that
# the tensor shows. An item that is a row of the data, a crop or a channel of a larger image,
# takes the bytes of all of it, in each file: the square of the data in all. Nothing limits the
# bytes on disk. The item that is read is right, and holds all of the storage in memory, too.
#
# Seen:
# 100 rows of 3000 bytes, 300000 in all; their files: 30.2 MB
# rows that are copied first: 0.5 MB
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q reuseloader==0.1.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import torch
from reuseloader import ReuseDataLoader

folder = Path(sys.argv[1])
data = torch.arange(100, dtype=torch.uint8)[:, None].expand(100, 3000).contiguous()


def megabytes(name, build):
    loader = ReuseDataLoader(build, len(data), folder / name, lifetime=1000)
    for _ in range(2):
        assert torch.equal(torch.cat(list(loader)), data)
    files = list((folder / name).glob("*.pt"))
    assert len(files) == 100
    return sum(path.stat().st_size for path in files) / 1e6


views = megabytes("views", lambda key: data[key.index])
copies = megabytes("copies", lambda key: data[key.index].clone())
print(f"100 rows of 3000 bytes, 300000 in all; their files: {views:.1f} MB")
print(f"rows that are copied first: {copies:.1f} MB")
assert views > 30 and copies < 1
PYTHON
