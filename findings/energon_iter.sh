#!/usr/bin/env bash
# megatron-energon 7.4.1: iter() of a loader goes on where the last loop was left
#
# Other loaders begin anew. Here a loop that is left by break leaves the epoch open, and the
# next for gets the rest of it: a look at the first batch costs that batch, while len() stays.
#
# Seen, of 10 samples without repetition: len 10; first loop [0, 1, 2] and break; second loop
# [3, ..., 9]; third loop all 10
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q megatron-energon==7.4.1 torch==2.13.0 pillow
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import contextlib
import io
import sys
import tarfile
import warnings
from pathlib import Path

import megatron.energon as energon
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

warnings.simplefilter("ignore")
folder = Path(sys.argv[1]) / "samples"
folder.mkdir()
with tarfile.open(folder / "part.tar", "w") as tar:
    for i in range(10):
        member = tarfile.TarInfo(f"{i}.txt")
        member.size = 1
        tar.addfile(member, io.BytesIO(str(i).encode()))
with contextlib.redirect_stdout(None):
    WebdatasetPreparator.prepare_dataset(
        folder, ["part.tar"], split_parts_ratio=[("train", 1.0)]
    )
(folder / ".nv-meta" / "dataset.yaml").write_text(
    "sample_type:\n  __module__: megatron.energon\n  __class__: TextSample\n"
    "field_map:\n  text: txt\n"
)
dataset = energon.get_train_dataset(
    folder,
    batch_size=None,
    shuffle_buffer_size=None,
    max_samples_per_sequence=None,
    worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=0),
    repeat=False,
)
loader = energon.get_loader(dataset)
first = []
for sample in loader:
    first.append(int(sample.text))
    if len(first) == 3:
        break
rest, third = ([int(sample.text) for sample in loader] for _ in range(2))
print(len(loader), first, rest, third)
assert len(loader) == 10 and not set(first) & set(rest)
assert sorted(first + rest) == sorted(third) == list(range(10))
PYTHON
