#!/usr/bin/env bash
# torchrl 0.14.1: while a replay buffer grows, sampling without replacement repeats items
#
# `SamplerWithoutReplacement` draws each item once before any comes again. It begins anew
# whenever the number of items has changed: a loop that adds an item between two batches, as
# an off-policy learner does until its storage is full, gets items again that it just had,
# while others wait. In a storage that is full the pass goes on, and each comes once.
#
# Seen, five batches of 10 from 50 items, one more added after each batch:
#       growing: 35 different items of 50 draws; full: 50
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
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement


def items(*numbers):
    return TensorDict({"item": torch.tensor(numbers)}, batch_size=[len(numbers)])


def different(room):
    torch.manual_seed(0)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(room),
        sampler=SamplerWithoutReplacement(),
        batch_size=10,
    )
    buffer.extend(items(*range(50)))
    drawn = []
    for added in range(50, 55):
        drawn += buffer.sample()["item"].tolist()
        buffer.extend(items(added))
    return len(set(drawn))


growing, full = different(100), different(50)
print("growing:", growing, "different items of 50 draws; full:", full)
assert full == 50
assert growing < 45
PYTHON
