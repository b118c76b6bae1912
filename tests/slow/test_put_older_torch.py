"""Tensors of a torch that lacks DLPack's exchange API are put without Python, too."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.host

OLDER = """
import sys
import pytest
import torch

del torch.Tensor.__dlpack_c_exchange_api__
sys.exit(pytest.main(["-q", "-k", "(tensor or bfloat16) and cpu", *sys.argv[1:]]))
"""


@pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="it is older"
)
def test_tensors_pass_the_tests_of_put_without_the_exchange():
    tests = Path(__file__).parents[1] / "buffer" / "test_put_objects.py"
    run = subprocess.run(
        [sys.executable, "-c", OLDER, "-p", "no:cacheprovider", tests],
        capture_output=True,
        text=True,
        check=False,
        cwd=tests.parents[2],
    )
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout
