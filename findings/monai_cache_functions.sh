#!/usr/bin/env bash
# MONAI 1.6.1: CacheDataset and SmartCacheDataset cache nothing of a plain function
#
# A transform may be any callable, and a chain may hold functions. They are taken for random:
# nothing from the first one on is cached, and all of it runs at each access, without a warning.
# The docstring says that what is to be cached must be a Transform. The cache is filled all the
# same: with the untransformed items.
#
# Seen (calls of the transform in three epochs of 8 items):
# a function: [8, 8, 8]
# the same as a Transform: [8, 0, 0]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
from monai.data import CacheDataset
from monai.transforms import Transform

calls = 0


def slow(item):
    global calls
    calls += 1
    return item * 2.0


class Slow(Transform):
    def __call__(self, item):
        return slow(item)


def epochs(transform):
    global calls
    calls = 0
    dataset = CacheDataset(list(range(8)), transform, progress=False)
    counts = []
    for _ in range(3):
        assert [dataset[i] for i in range(8)] == [2.0 * i for i in range(8)]
        counts.append(calls)
        calls = 0
    return counts


print("a function:", plain := epochs(slow))
print("the same as a Transform:", known := epochs(Slow()))
assert plain == [8, 8, 8] and known == [8, 0, 0]
PYTHON
