#!/usr/bin/env bash
# stocaching 0.2.1: an augmentation that works in place changes what is cached
#
# SharedCache.get_slot returns a view of the shared memory, not a copy. A dataset that takes
# an item from the cache and then works in place (x -= mean, an erased patch, a flip of boxes)
# writes the result into the cache: the next epoch begins with it, in all workers. The first
# epoch, in which items are made, and the second one are right. Values that the dtype of the cache lacks are
# rounded without a word.
#
# Seen:
# epoch 0: 100, epoch 1: 100, epoch 2: 99, epoch 3: 98
# 0.75 in a cache of uint8: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q stocaching==0.2.1 torch==2.13.0 numpy==1.26.4
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from stocaching import SharedCache


class Items(torch.utils.data.Dataset):
    def __init__(self):
        self.cache = SharedCache(1, dataset_len=8, data_dims=(3,))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        item = self.cache.get_slot(index)
        if item is None:
            item = torch.full((3,), 101, dtype=torch.uint8)
            self.cache.set_slot(index, item)
        item -= 1
        return item


loader = torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2)
seen = [sorted({int(x) for batch in loader for x in batch.flatten()}) for _ in range(4)]
print(", ".join(f"epoch {epoch}: {values[0]}" for epoch, values in enumerate(seen)))
assert seen == [[100], [100], [99], [98]], seen
cache = SharedCache(1, dataset_len=1, data_dims=(1,))
cache.set_slot(0, torch.tensor([0.75]))
print("0.75 in a cache of uint8:", int(cache.get_slot(0)))
assert cache.get_slot(0).tolist() == [0]
PYTHON
