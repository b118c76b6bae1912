"""Records put from the device, beside TorchRL's `extend` and flashbax's `add`.

1 to 4,096 records of 136 bytes, 4 KB and 150,528 bytes, from tensors on the device
(flashbax: JAX's arrays); and a device-to-device copy of the same bytes. The rings are
full and overwritten: those of the others at once, echobuf's where records were drawn,
once each (factor 1). These draws are in large batches and outside the time, so that
the time is that of the put alone for everyone. In `gpu_put_and_draw` both are timed:
a put of 256 records, and four batches of 256, as a replay buffer is used at factor 4.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from ask import Candidate, Question, Settings
from producers import ByHost, Copy, Echobuf, EchobufCupy, Flashbax, Torchrl
from put_and_draw import EchobufLoop, FlashbaxLoop, TorchrlLoop
from script import main

COPY = "copy on the device"
SIZES = (1, 16, 256, 4096)
SMALL: Settings = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 65_536,
    "batch": 1024,
    "puts": 200,
}
PAGES: Settings = {**SMALL, "fields": {"page": [[4096], "uint8"]}, "key": "page"}
IMAGES: Settings = {
    **SMALL,
    "fields": {"image": [[224, 224, 3], "uint8"]},
    "key": "image",
    "records": 8192,
}
TINY: Settings = {"records": 8192, "puts": 3}
TINY_IMAGES: Settings = {**TINY, "fields": {"image": [[2, 2, 3], "uint8"]}}


def of_sizes(
    name: str, make: Any, sizes: tuple[int, ...] = SIZES, **others: Any
) -> list[Candidate]:
    """Return a candidate for each number of records of a put."""
    reference = others.pop("reference", None)
    return [
        Candidate(
            f"{name}, {size}",
            make,
            {"put": size},
            reference=reference and f"{reference}, {size}",
            **others,
        )
        for size in sizes
    ]


def question(name: str, aim: str, settings: Settings, tiny: Settings) -> Question:
    """Ask for records a second of one record size."""
    return Question(
        name=f"gpu_put_{name}",
        aim=aim,
        unit="record",
        reference="TorchRL, 256",
        candidates=(
            *of_sizes("TorchRL", Torchrl, peer=True, reference="TorchRL"),
            *of_sizes("flashbax", Flashbax, peer=True, reference="TorchRL"),
            *of_sizes("echobuf", Echobuf, reference="TorchRL"),
            Candidate(
                "echobuf by way of the host, 256", ByHost, {"put": 256}, peer=True
            ),
        ),
        clock="wall",
        settings=settings,
        tiny=tiny,
        rounds=11,
        limit_s=5,
    )


_HOST = Question(
    name="gpu_put_host_time",
    aim="10 us",
    unit="put",
    reference="TorchRL, 256",
    candidates=(
        *of_sizes("TorchRL", Torchrl, (1, 256), peer=True, reference="TorchRL"),
        *of_sizes("flashbax", Flashbax, (1, 256), peer=True, reference="TorchRL"),
        *of_sizes("echobuf", Echobuf, (1, 256), reference="TorchRL"),
        Candidate("echobuf, CuPy's arrays, 256", EchobufCupy, {"put": 256}, peer=True),
    ),
    clock="host",
    settings={**SMALL, "unit": "put"},
    tiny=TINY,
    rounds=15,
    limit_s=4,
)
QUESTIONS = (
    question(
        "136_bytes",
        "5 times TorchRL's records a second, 3 times flashbax's",
        SMALL,
        TINY,
    ),
    _HOST,
    Question(
        name="gpu_put_copied",
        aim="0.9 of a copy on the device",
        unit="record",
        reference=f"{COPY}, 256",
        candidates=(
            *of_sizes(COPY, Copy, SIZES[1:], reference=COPY),
            *of_sizes("echobuf", Echobuf, SIZES[1:], reference=COPY),
        ),
        clock="device",
        settings={**IMAGES, "puts": 16},
        tiny=TINY_IMAGES,
        limit_s=4,
    ),
    replace(
        _HOST,
        name="gpu_put_and_draw",
        aim="none set",
        unit="put and four batches",
        reference="TorchRL",
        candidates=(
            Candidate("TorchRL", TorchrlLoop, peer=True),
            Candidate("flashbax", FlashbaxLoop, peer=True),
            Candidate("echobuf", EchobufLoop),
        ),
        clock="wall",
        settings={**SMALL, "put": 256, "batch": 256},
        tiny=TINY,
    ),
    question("4_kb", "none set", PAGES, {**TINY, "fields": {"page": [[16], "uint8"]}}),
    question("150_kb", "none set", IMAGES, TINY_IMAGES),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
