"""The examples of docs/serve.md work."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import markdown

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"


def test_the_page(tmp_path):
    data, train, _ = markdown.blocks(PAGE, "python")
    command, _ = markdown.blocks(PAGE, "bash")
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


def test_the_section_on_examples_that_differ_in_length(tmp_path):
    section = PAGE, "Examples that differ in length"
    (train,) = markdown.blocks_below(*section, "python")
    (command,) = markdown.blocks_below(*section, "bash")
    (tmp_path / "texts.py").write_text(
        "import numpy as np\ntexts = [np.full(i % 90, i) for i in range(3000)]\n"
    )
    _, *arguments = command.split()
    server = _start(tmp_path, "-m", "echobuf", *arguments, "--epochs", "1")
    found = {}
    exec(train, found)
    lengths = np.concatenate([batch.lengths for batch in found["loader"]])
    assert sorted(lengths) == sorted(2 * [i % 90 for i in range(3000)])
    found["loader"].close()
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
