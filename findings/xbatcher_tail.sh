#!/usr/bin/env bash
# xbatcher 0.4.0: what does not fill a batch is left out, along each dimension
#
# BatchGenerator has no option to keep the rest (as drop_last=False), and says nothing. Two
# dimensions that do not divide lose both edges.
#
# Seen, of a grid of 10 x 7 cells: 9 windows of 3 x 2 cells, row 9 and column 6 in none
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q xbatcher==0.4.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import xarray
import xbatcher

cells = np.arange(70).reshape(10, 7)
grid = xarray.Dataset({"cell": (("row", "column"), cells)})
windows = xbatcher.BatchGenerator(grid, input_dims={"row": 3, "column": 2})
seen = {int(cell) for window in windows for cell in window["cell"].values.flat}
missing = sorted(set(range(70)) - seen)
print(len(windows), "windows,", len(missing), "of 70 cells in none:", missing)
assert len(windows) == 9 and missing == sorted({*cells[9], *cells[:, 6]})
PYTHON
