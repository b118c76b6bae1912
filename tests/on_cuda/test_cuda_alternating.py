"""Operations that alternate make on a device what they make on the CPU, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import Field
from echobuf import transforms as T
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker

CROP = T.RandomCrop((9, 8), padding=1, alternate=True)
FLIP = T.RandomHorizontalFlip(alternate=True)
WINDOW = T.RandomWindow(12, alternate=True)
IMAGE = {"image": Field((10, 9, 3), np.uint8)}
TOKENS = {"tokens": Field((None,), np.int32, max_length=40)}
CHAINS: dict[str, list[Any]] = {
    "image": [
        *(CROP, FLIP, T.RandomResizedCrop(6, alternate=True)),
        T.ColorJitter(0.4, 0.4, alternate=True),
        *(T.RandomVerticalFlip(), T.ToDtype(np.float32, scale=True)),
        T.MixUp(labels=None),
    ],
    "turned": [
        *(T.Source("image"), T.RandomRotation(20, alternate=True)),
        T.RandomAffine(0, (0.2, 0.1), (0.7, 1.3), 9, alternate=True),
        T.RandomApply([T.RandomVerticalFlip(alternate=True)]),
    ],
    "tokens": [WINDOW],
    "attend": [T.Source("tokens"), WINDOW.mask()],
    "gained": [
        *(T.Source("tokens"), T.ToDtype(np.float32)),
        T.RandomGain(alternate=True),
    ],
}
COUNT = 18


def example_of(spec: Any, number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    return {
        name: random.integers(
            0, 200, [3 + 2 * number if axis is None else axis for axis in field.shape]
        ).astype(field.dtype)
        for name, field in spec.items()
    }


def bits(leaf: Any) -> list[bytes]:
    parts = leaf if isinstance(leaf, tuple) else (leaf,)
    return [np.asarray(part).tobytes() for part in parts]


def batches(device: str, spec: Any, names: list[str], **options: Any) -> list[Any]:
    """The bits of all batches, in two epochs."""

    def feed() -> None:
        for number in range(COUNT):
            buffer.put(example_of(spec, number), timeout=WAIT_S)
        buffer.close()

    chains = {name: CHAINS[name] for name in names}
    if "tokens" in spec:
        chains = {name: _without_mixes(chain) for name, chain in chains.items()}
    drawn = []
    with echobuf.EchoBuffer(
        spec, transform=chains, device=device, seed=7, **options
    ) as buffer:
        for _ in range(2):
            producer = Worker(feed)
            drawn += [
                {name: bits(leaf) for name, leaf in batch.items()} for batch in buffer
            ]
            producer.result()
            buffer.reset()
    return drawn


def _without_mixes(chain: list[Any]) -> list[Any]:
    return [each for each in chain if not isinstance(each, T.MixUp)]


FIXED = {"batch_size": 4, "window": 10, "factor": 2.5}
RAGGED = {"batch_size": 4, "window": 8, "factor": 3}
CASES = [
    (IMAGE, ["image", "turned"], FIXED),
    (IMAGE, ["image"], {**FIXED, "factor": 5, "prefetch": 2}),
    (TOKENS | IMAGE, ["image", "tokens", "attend", "gained"], RAGGED),
    (TOKENS, ["tokens", "gained"], {**RAGGED, "ragged": "padded"}),
]


@pytest.mark.parametrize(
    ("case", "kernels"),
    [*((case, "host") for case in range(len(CASES))), (0, "ptx"), (2, "ptx")],
)
def test_draws_are_those_of_the_cpu(case: int, kernels: str) -> None:
    spec, names, options = CASES[case]
    on_host = batches("cpu", spec, names, **options)
    assert len(on_host) > 2 * COUNT * 2 // 4
    with simulated_cuda(3, kernels):
        assert batches("cuda", spec, names, **options) == on_host


def test_packed_rows_are_those_of_the_cpu() -> None:
    options = {"batch_size": 2, "pack_to": 64, "window": 8, "factor": 3}
    on_host = batches("cpu", TOKENS, ["gained"], **options)
    assert len(on_host) > 2 * 2
    with simulated_cuda(3, "host"):
        assert batches("cuda", TOKENS, ["gained"], **options) == on_host
