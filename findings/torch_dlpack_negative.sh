#!/usr/bin/env bash
# torch 2.13.0: an array that torch has yet to negate changes its sign by DLPack
#
# The imaginary part of a conjugated tensor is a view whose values torch negates when they
# are read (`is_neg()`). `numpy()` and `numpy.asarray` refuse such a tensor, as DLPack
# refuses one that torch has yet to conjugate; but DLPack hands its memory over as it is:
# NumPy, and torch itself, read the values with the other sign, and nothing says so. What
# gives `x.resolve_neg()` reads them right.
#
# Seen, of the imaginary parts of conj([1+2j, 3+4j]): torch [-2.0, -4.0]
#       numpy.from_dlpack [2.0, 4.0]; torch.from_dlpack [2.0, 4.0]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import torch

part = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
print("torch", part.tolist(), "is_neg", part.is_neg())
assert part.is_neg() and part.tolist() == [-2, -4]
for take in (np.from_dlpack, torch.from_dlpack):
    print(f"{take.__module__}.from_dlpack", take(part).tolist())
    assert take(part).tolist() == [2, 4]
    assert take(part.resolve_neg()).tolist() == [-2, -4]
for take in (lambda x: x.numpy(), np.asarray):
    try:
        take(part)
    except RuntimeError as error:
        print("refused:", error)
    else:
        raise AssertionError("numpy() took it")
PYTHON
