"""Two processes, each with a window of its own, on one GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import sys
import torch
from test_gpu_torch import leaves, loader
from gpu_records import ids_of

epochs = 20
here = [ids_of(batch) for batch in loader(torch, "cpu")]
there = loader(torch, "cuda")
for _ in range(epochs):
    there.set_epoch(0)
    got = []
    for batch in there:
        torch.cuda._sleep(200_000)
        got.append(batch)
    got = [torch.utils._pytree.tree_map(lambda leaf: leaf.cpu(), each) for each in got]
    assert [ids_of(each) for each in got] == here
print("as on the CPU")
"""


def test_two_processes_on_one_gpu(cuda):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out == "as on the CPU\n"
