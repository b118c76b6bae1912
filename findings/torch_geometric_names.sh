#!/usr/bin/env bash
# torch_geometric 2.8.1: what a batch does to an attribute hangs on its name
#
# Batching joins graphs and shifts edge_index by the nodes before. It does the same to every
# attribute whose name contains "index" (by the number of nodes), and to every one whose name
# contains "batch" (by its largest value so far and one): a class index, a batch number of an
# experiment come out as other numbers. The same values under other names stay.
#
# Seen, of three graphs with three nodes each, whose values are 0, 1 and 2:
# class_index [0, 4, 8]
# lab_batch   [0, 2, 5]
# kind        [0, 1, 2]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch_geometric==2.8.1 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from torch_geometric.data import Batch, Data

graphs = [
    Data(
        x=torch.zeros(3, 1),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        class_index=torch.tensor([i]),
        lab_batch=torch.tensor([i]),
        kind=torch.tensor([i]),
    )
    for i in range(3)
]
batch = Batch.from_data_list(graphs)
expected = {"class_index": [0, 4, 8], "lab_batch": [0, 2, 5], "kind": [0, 1, 2]}
for name, values in expected.items():
    print(f"{name:11}", batch[name].tolist())
    assert batch[name].tolist() == values
PYTHON
