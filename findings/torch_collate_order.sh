#!/usr/bin/env bash
# torch 2.13.0: which example comes first decides the type of a batch of mixed numbers
#
# A dataset gives some labels as int and some as float (JSON drops ".0", so 1.0 and 1 are the
# same value written in two ways). `default_collate` looks at the first example of a batch
# alone: where it is a float, the batch is float64 and exact; where it is an int, the batch is
# float32, and the other labels are rounded to it. With `shuffle=True` the type of a batch, and
# the last digits of a label, depend on the seed. NumPy takes float64 in both orders.
#
# Seen:
# float first: torch.float64 [0.1, 1.0]
# int first: torch.float32 [1.0, 0.10000000149011612]
# types of the batches of one shuffled epoch: ['torch.float32', 'torch.float64']
# NumPy, int first: float64 [1.0, 0.1]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

found = {"float first": default_collate([0.1, 1]), "int first": default_collate([1, 0.1])}
for name, batch in found.items():
    print(f"{name}: {batch.dtype} {batch.tolist()}")
assert found["float first"].dtype == torch.float64
assert found["float first"].tolist() == [0.1, 1.0]
assert found["int first"].dtype == torch.float32
assert found["int first"][1].item() != 0.1

torch.manual_seed(0)
labels = [0.1 if i % 2 else 1 for i in range(64)]
types = sorted({str(batch.dtype) for batch in DataLoader(labels, batch_size=8, shuffle=True)})
print("types of the batches of one shuffled epoch:", types)
assert types == ["torch.float32", "torch.float64"]

array = np.asarray([1, 0.1])
print("NumPy, int first:", array.dtype, array.tolist())
assert array.dtype == np.float64
PYTHON
