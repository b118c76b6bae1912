#!/usr/bin/env bash
# pylance 14.0.2: a row that is updated moves to the end
#
# The order in which to_batches and take count rows is not that in which they were written:
# after an update of one row, rows behind it have other numbers. Indices kept from before (of
# a split, of a sampler's state) mean other rows. Batches end at fragments, too: batch_size is
# an upper limit.
#
# Seen: ids [0, 1, 2, 3, 4, 5] -> [0, 2, 3, 4, 5, 1]; take([1]) gives id 2; batches of up to
# 4 rows: [4, 1, 1]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pylance==14.0.2
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import lance
import pyarrow as pa

folder = sys.argv[1]
table = pa.table({"id": range(6), "value": [0] * 6})
dataset = lance.write_dataset(table, f"{folder}/rows.lance")


def ids():
    return [i for batch in dataset.to_batches() for i in batch["id"].to_pylist()]


print(ids())
assert ids() == list(range(6))
dataset.update({"value": "1"}, where="id = 1")
second = dataset.take([1])["id"].to_pylist()
sizes = [batch.num_rows for batch in dataset.to_batches(batch_size=4)]
print(ids(), second, sizes)
assert ids() == [0, 2, 3, 4, 5, 1] and second == [2]
PYTHON
