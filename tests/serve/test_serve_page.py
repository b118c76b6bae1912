"""The examples of docs/serve.md work."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import markdown

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"


def test_the_page(tmp_path):
    data, train = markdown.blocks(PAGE, "python")
    (command,) = markdown.blocks(PAGE, "bash")
    (tmp_path / "data.py").write_text(data)
    (tmp_path / "train.py").write_text(train.replace("...", "print(*batch['id'])"))
    _, *arguments = command.split()
    server = _start(tmp_path, "-m", "echobuf", *arguments, "--epochs", "2")
    jobs = [_start(tmp_path, "train.py", *each) for each in (("2", "0"), ("3", "1"))]
    for job, factor in zip(jobs, (2, 3), strict=True):
        said, errors = job.communicate(timeout=100)
        assert job.returncode == 0, errors
        served = np.bincount(np.array(said.split(), int))
        assert (served == 2 * factor).all()
        assert len(served) == 2000
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors


def _start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
