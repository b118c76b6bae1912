"""The examples of docs/workers.md work."""

import sys
from pathlib import Path

import numpy as np

import markdown

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "faults"))

from programs import finish, start  # noqa: E402 - beside the tests of faults

PAGE = HERE.parents[1] / "docs" / "workers.md"


def test_the_script(tmp_path):
    (code,) = markdown.blocks(PAGE, "python")
    script = tmp_path / "script.py"
    script.write_text(code.replace("...", "print(*batch['id'])"))
    (tmp_path / "photos.py").write_text((HERE / "photos.py").read_text())
    served = np.array(finish(start(script)).split(), int)
    assert (np.bincount(served) == 2).all()
    assert len(served) == 2000


def test_a_script_without_its_guard_gets_an_error_that_names_it(tmp_path):
    (code,) = markdown.blocks(PAGE, "python")
    head, _, body = code.partition('if __name__ == "__main__":\n')
    script = tmp_path / "script.py"
    lines = [line.removeprefix("    ") for line in body.splitlines()]
    script.write_text("\n".join([head, *lines]))
    (tmp_path / "photos.py").write_text((HERE / "photos.py").read_text())
    program = start(script)
    _, errors = program.communicate()
    assert program.returncode == 1
    assert '`if __name__ == "__main__":`' in errors
