"""A child that upstream forks ends as its own program would, and says nothing."""

import subprocess
import sys

import pytest

from helpers import WAIT_S

PROGRAM = """
import os, sys
import numpy as np
import echobuf

at, end = int(sys.argv[1]), sys.argv[2]

class Forks:
    def __iter__(self):
        for number in range(40):
            if number == at:
                pid = os.fork()
                if pid == 0:
                    print("in the child")
                    exec(end)
                    if end == "pass":
                        return
                else:
                    status = os.waitpid(pid, 0)[1]
                    print(os.waitstatus_to_exitcode(status), flush=True)
            yield np.int64(number)

loader = echobuf.EchoLoader(Forks(), batch_size=4, window=8, factor=2)
print(sum(len(batch) for batch in loader))
"""
ENDS = {"sys.exit(3)": 3, "sys.exit('words')": 1, "pass": 0, "number += 1": 0}


def run(at, end):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(at), end],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )


@pytest.mark.host
@pytest.mark.parametrize("at", [0, 20])
@pytest.mark.parametrize("end", ENDS)
def test_it_ends_silently(at, end):
    done = run(at, end)
    assert done.stdout.split("\n") == ["in the child", str(ENDS[end]), "80", ""]
    assert done.stderr == ("words\n" if "words" in end else "")


@pytest.mark.host
@pytest.mark.parametrize("at", [0, 20])
def test_an_error_ends_it_as_it_ends_a_program(at):
    done = run(at, "raise LookupError('of the child')")
    assert done.stdout.split("\n") == ["in the child", "1", "80", ""]
    assert "LookupError: of the child" in done.stderr
