"""The examples of docs/workers.md work."""

import sys
from pathlib import Path

import numpy as np
import pytest

import markdown

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "faults"))

from programs import finish, start  # noqa: E402 - beside the tests of faults

PAGE = HERE.parents[1] / "docs" / "workers.md"


BLOCKS = markdown.blocks(PAGE, "python")


@pytest.mark.parametrize("number", [0, 1])
def test_the_script(tmp_path, number):
    script = tmp_path / "script.py"
    lines = BLOCKS[number].splitlines()
    if number == 1:  # makes a loader, and leaves the loop to the reader
        lines += ["    for batch in loader:", "        ..."]
    script.write_text("\n".join(lines).replace("...", "print(*batch['id'])"))
    (tmp_path / "photos.py").write_text((HERE / "photos.py").read_text())
    served = np.array(finish(start(script)).split(), int)
    assert (np.bincount(served) == 2).all()
    assert len(served) == 2000


def test_a_script_without_its_guard_gets_an_error_that_names_it(tmp_path):
    code = BLOCKS[0]
    head, _, body = code.partition('if __name__ == "__main__":\n')
    script = tmp_path / "script.py"
    lines = [line.removeprefix("    ") for line in body.splitlines()]
    script.write_text("\n".join([head, *lines]))
    (tmp_path / "photos.py").write_text((HERE / "photos.py").read_text())
    program = start(script)
    _, errors = program.communicate()
    assert program.returncode == 1
    assert '`if __name__ == "__main__":`' in errors
