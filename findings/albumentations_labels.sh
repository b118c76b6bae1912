#!/usr/bin/env bash
# albumentations 2.0.8: integer labels of boxes and keypoints pass through float32
#
# A list of integers in a field of label_fields comes back as floats, also where the
# transform changes nothing; an array keeps its dtype. Both lose what float32 cannot hold:
# an id above 2 ** 24, as annotations of large data sets have, comes back as another one.
#
# Seen: list [16777217, 5] -> [16777216.0, 5.0] (boxes)
#       array [16777217, 5] -> array [16777216, 5], int64 (keypoints)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q albumentations==2.0.8
"$folder/venv/bin/python" - <<'PYTHON'
import albumentations as A
import numpy as np

image = np.zeros((8, 8, 3), np.uint8)
same = [A.HorizontalFlip(p=0)]
boxes = A.BboxParams(format="pascal_voc", label_fields=["ids"])
points = A.KeypointParams(format="xy", label_fields=["ids"])
ids = [16777217, 5]
of_boxes = A.Compose(same, bbox_params=boxes)(
    image=image, bboxes=np.array([[0, 0, 8, 8], [1, 1, 4, 4]]), ids=ids
)
of_points = A.Compose(same, keypoint_params=points)(
    image=image, keypoints=np.array([[1, 1], [2, 2]]), ids=np.array(ids)
)
print(ids, "->", of_boxes["ids"], "and", repr(of_points["ids"]))
assert of_boxes["ids"] == [16777216.0, 5.0]
assert isinstance(of_boxes["ids"][1], float)
assert of_points["ids"].tolist() == [16777216, 5]
assert of_points["ids"].dtype == np.int64
PYTHON
