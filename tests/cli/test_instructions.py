"""Vector instructions: the levels of a CPU, and what `echobuf doctor` says of them."""

import json
import os
import subprocess
import sys

import pytest

from echobuf import _core
from echobuf.cli.doctor import instructions

VARIABLE = "ECHOBUF_INSTRUCTIONS"
X86 = ["x86-64"]
AVX2 = [*X86, "avx2", "f16c"]
AVX512 = [*X86, "avx2", "avx512", "f16c"]

DRAWS = """
import hashlib, json, numpy as np
from echobuf import EchoBuffer, Field, _core, transforms as T

spec = {"x": Field((64, 48, 3), np.uint8), "y": Field((), np.int64)}
images = np.random.default_rng(3).integers(0, 256, (64, 64, 48, 3), np.uint8)
chain = [
    T.RandomResizedCrop(40),
    T.RandomHorizontalFlip(),
    T.ColorJitter(0.3, 0.3, 0.3),
    T.ToDtype(np.float16, scale=True),
]
digest = hashlib.sha256()
options = {"batch_size": 16, "window": 64, "factor": 3, "transform": {"x": chain}}
with EchoBuffer(spec, **options) as buffer:
    buffer.put_batch({"x": images, "y": np.arange(64)})
    buffer.close()
    for batch in buffer:
        digest.update(batch["x"].tobytes() + batch["y"].tobytes())
print(json.dumps([_core.cpu_features(), digest.hexdigest()]))
"""


@pytest.mark.parametrize(
    ("used", "there", "value", "text"),
    [
        (AVX512, AVX512, None, "AVX-512, F16C (all of this CPU's that are used)"),
        (AVX2, AVX2, None, "AVX2, F16C (all of this CPU's that are used)"),
        (AVX2, AVX2, "avx512", "AVX2, F16C (all of this CPU's that are used)"),
        (AVX2, AVX512, "avx2", "AVX2, F16C (V=avx2; this CPU has AVX-512, F16C)"),
        (X86, AVX2, "portable", "for x86-64 (V=portable; this CPU has AVX2, F16C)"),
        (["aarch64"], ["aarch64"], None, "portable code for aarch64 (all of"),
        (AVX2, AVX2, "sse", "(V=sse is none of portable, avx2, avx512: it changes"),
    ],
)
def test_doctor_says_which_instructions_run(used, there, value, text):
    assert text in instructions(used, there, "V", value)


def test_features_begin_with_the_architecture_and_none_is_used_that_is_not_there():
    used, there = _core.cpu_features(), _core.cpu_features(in_use=False)
    assert used[0] == there[0] != ""
    assert set(used) <= set(there)
    assert _core.CPU_VARIABLE == VARIABLE


def drawn_at(level):
    kept = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", DRAWS],
        env=kept | ({VARIABLE: level} if level else {}),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_lower_levels_are_used_where_asked_for_and_draw_the_same_bits():
    best, bits = drawn_at(None)
    assert best == _core.cpu_features(in_use=False)
    assert drawn_at("portable") == [best[:1], bits]
    features, same = drawn_at("avx2")
    assert features == [name for name in best if name != "avx512"]
    assert same == bits
