#!/usr/bin/env bash
# albumentations 2.0.8: worker processes of a DataLoader draw the same random numbers
#
# A Compose makes its generator when it is constructed. Workers that are forked copy it:
# each begins at the same state, and each epoch begins with new copies of it. So two workers
# augment their shares of the data in the same way, and every epoch repeats that of the one
# before. Without workers the numbers go on. No seed was given.
#
# Seen (sums of eight equal images after RandomBrightnessContrast; the values differ from run
# to run):
# 0 workers: epoch 0 [3840, 2688, 3984, 7008, 4416, 2880, 2256, 6192]
#            epoch 1 [6144, 6480, 6000, 6960, 5184, 4512, 5664, 4512]
# 2 workers: epoch 0 [3984, 3024, 2544, 7248, 3984, 3024, 2544, 7248]
#            epoch 1 [3984, 3024, 2544, 7248, 3984, 3024, 2544, 7248]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q albumentations==2.0.8 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import albumentations as A
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self):
        self.augment = A.Compose([A.RandomBrightnessContrast(p=1)])

    def __len__(self):
        return 8

    def __getitem__(self, i):
        image = np.full((4, 4, 3), 100, np.uint8)
        return int(self.augment(image=image)["image"].sum())


def epochs(workers):
    options = {"multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(Images(), batch_size=4, num_workers=workers, **options)
    both = [[x for batch in loader for x in batch.tolist()] for _ in range(2)]
    print(workers, "workers:", *both)
    return both


first, second = epochs(0)
assert first != second and first[:4] != first[4:]
first, second = epochs(2)
assert first == second and first[:4] == first[4:]
PYTHON
