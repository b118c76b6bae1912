#!/usr/bin/env bash
# datasets 5.2.0: makes no Dataset where it is installed in a folder that is not called
# site-packages
#
# Its fingerprints come from dill 0.4.1, which pickles a module by its name if the path of
# its file holds "site-packages" (or lies under Python's prefix), and else all that is in it.
# So `pip install --target libs` and PYTHONPATH=libs, as archives for clusters and serverless
# functions are made, give a PicklingError about a type of pyarrow 26.0.1. The same files work
# once the folder is renamed.
#
# Seen:
# libs           PicklingError: Can't pickle <class 'MonthDayNano'>: it's not found as
#                builtins.MonthDayNano
# site-packages  2 rows
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --target "$folder/libs" \
  datasets==5.2.0 dill==0.4.1 pyarrow==26.0.1
cat >"$folder/read.py" <<'PYTHON'
import pickle
import sys

from datasets import Dataset

try:
    print(len(Dataset.from_dict({"x": [1, 2]})), "rows")
    outcome = "rows"
except pickle.PicklingError as error:
    print(f"PicklingError: {error}")
    outcome = "error"
assert outcome == sys.argv[1]
PYTHON
PYTHONPATH=$folder/libs "$folder/venv/bin/python" -W ignore "$folder/read.py" error
mv "$folder/libs" "$folder/site-packages"
PYTHONPATH=$folder/site-packages "$folder/venv/bin/python" "$folder/read.py" rows
