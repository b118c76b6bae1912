"""Drawing batches of images and augmenting them: what is asked, and of whom.

All candidates make batches of 256 float32 images [3, 224, 224] from uint8 images
[256, 256, 3] in memory, one thread each: cut, flipped, scaled to 0 ... 1, normalised.
The yardstick is a copy that moves the same bytes: what is read of an image, and what is
written of it.
"""

from __future__ import annotations

from echobuf.cli.bench import Candidate, Question
from sampling import HERE

SETTINGS = {
    "fields": {"image": [[256, 256, 3], "uint8"]},
    "key": "image",
    "records": 1024,
    "batch": 256,
    "batches": 2,
    "chunks": 1,
    "size": 224,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "threads": 1,
}


def question(name: str, cut: str) -> Question:
    """Make the question of a result file; `cut` is "crop", or "resized"."""
    target = "peers.{}"
    return Question(
        name,
        "batch",
        (
            Candidate("bytes moved", target.format("augment_bound:Moved")),
            Candidate("echobuf", target.format("augment_echobuf:Draw")),
            Candidate(
                "echobuf out=", target.format("augment_echobuf:Draw"), {"out": True}
            ),
            Candidate("OpenCV", target.format("augment_opencv:Images")),
            Candidate("albumentations", target.format("augment_albumentations:Images")),
            Candidate("torchvision, batch", target.format("augment_torchvision:Batch")),
            Candidate(
                "torchvision, images", target.format("augment_torchvision:Images")
            ),
        ),
        reference="echobuf",
        settings={**SETTINGS, "cut": cut},
        path=(HERE,),
        timeout_s=300,
    )
