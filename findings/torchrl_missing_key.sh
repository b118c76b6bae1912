#!/usr/bin/env bash
# torchrl 0.14.1: a record without one of the keys is completed from the one it overwrites
#
# `extend` takes a TensorDict that lacks a key of the storage, without a word. The record
# then has, under that key, what the record had that lay there before: a new observation
# with another one's reward. Where none lay there, it has zeros; and a key that comes later
# is added, with zeros in all records before. An entry with an extent of 1 is repeated to
# the storage's extent.
#
# Seen: observation [9, 9, 9], reward [0, 1, 2] of the records before
#       [[9, 9, 9], ...] of [[9], ...]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 cloudpickle packaging \
  importlib_metadata orjson pyvers
"$folder/venv/bin/pip" install -q --no-deps torchrl==0.14.1 tensordict==0.14.3
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer


def buffer_of(**first):
    buffer = ReplayBuffer(storage=LazyTensorStorage(3), batch_size=3)
    buffer.extend(TensorDict(first, batch_size=[3]))
    return buffer


nines = torch.full((3,), 9)
buffer = buffer_of(observation=torch.arange(3), reward=torch.arange(3))
buffer.extend(TensorDict({"observation": nines}, batch_size=[3]))
held = buffer[:]
print("observation", held["observation"].tolist(), "reward", held["reward"].tolist())
assert held["observation"].tolist() == [9, 9, 9]
assert held["reward"].tolist() == [0, 1, 2]

buffer = buffer_of(observation=torch.zeros(3, 3, dtype=torch.int64))
buffer.extend(TensorDict({"observation": nines[:, None]}, batch_size=[3]))
print(buffer[:]["observation"].tolist(), "of", nines[:, None].tolist())
assert buffer[:]["observation"].tolist() == [[9, 9, 9]] * 3
PYTHON
