#!/usr/bin/env bash
# tensorstore 0.1.86: a slice keeps its numbers, so a slice of a slice is not NumPy's
#
# x[2:6] has rows 2 to 5, not 0 to 3: x[2:6][0] is an error, x[2:6][3] is row 3, and of
# x[2:6][2:4] come rows 2 and 3, where NumPy gives rows 4 and 5. A negative index is one below
# 0, not one from the end. A loader that takes its share of rows and counts from 0 reads
# other rows, or fails only at the first of them. translate_to[0] numbers them anew.
#
# Seen: rows of x[2:6][2:4] [2, 3]; NumPy [4, 5]; with translate_to[0] [4, 5]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tensorstore==0.1.86 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import tensorstore as ts

rows = np.arange(8)
spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}}
x = ts.open(spec, create=True, dtype="int64", shape=[8]).result()
x.write(rows).result()
part = x[2:6]
tensorstore = part[2:4].read().result().tolist()
anew = part.translate_to[0][2:4].read().result().tolist()
print(tensorstore, rows[2:6][2:4].tolist(), anew)
assert (tensorstore, anew) == ([2, 3], [4, 5])
assert part[3].read().result() == 3
for index in (0, -1):
    try:
        part[index].read().result()
    except IndexError as error:
        print(f"x[2:6][{index}]:", str(error)[:60])
    else:
        raise AssertionError(index)
PYTHON
