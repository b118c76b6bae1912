#!/usr/bin/env bash
# datasets 5.2.0, format "numpy": a row and a slice of one column differ in dtype
#
# The format keeps the dtype of a scalar in a row, and converts the column of a slice to
# int64 or float32. The same features give other dtypes to who reads rows than to who reads
# batches; and one missing value anywhere in a slice makes float32 of int64 numbers, which
# changes those above 2 ** 24.
#
# Seen:
# float64  row float64, slice float32
# float16  row float16, slice float32
# uint8    row uint8, slice int64
# ids [16777217, 2] -> [16777217, 2]
# ids [16777217, None] -> [16777216.0, nan]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from datasets import Dataset, Features, Value

expected = {"float64": "float32", "float16": "float32", "uint8": "int64"}
for dtype, of_slice in expected.items():
    column = {"x": np.array([1, 2], dtype).tolist()}
    features = Features({"x": Value(dtype)})
    dataset = Dataset.from_dict(column, features=features).with_format("numpy")
    row, rows = dataset[0]["x"].dtype, dataset[:2]["x"].dtype
    print(f"{dtype:8} row {row}, slice {rows}")
    assert (row, rows) == (dtype, of_slice)
for ids in ([16777217, 2], [16777217, None]):
    read = Dataset.from_dict({"id": ids}).with_format("numpy")[:2]["id"]
    print("ids", ids, "->", read.tolist(), read.dtype)
    assert read.dtype == ("float32" if None in ids else "int64")
    assert read[0] == (16777216 if None in ids else 16777217)
PYTHON
