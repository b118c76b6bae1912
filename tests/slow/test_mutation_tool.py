"""The tool finds faults that tests do not see, and leaves the package as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mutate
from mutants import mutants_of

SOURCE = '''\
"""A module."""

from __future__ import annotations

LIMIT = 10


def clamp(value: int, low: int = 0) -> int:
    """Return the value, not under `low` nor over the limit."""
    if not value > low and value != low:
        return low
    if value == 7:
        return value
    if value > LIMIT:
        return LIMIT  # “at most”
    return value


def log(text: str, to: list[str]) -> None:
    to.append(text)
    if 0 < len(text) <= 3: to.append("short")
'''
TESTS = """\
from toy.numbers import clamp, log

def test_clamp():
    assert [clamp(v) for v in (-5, 0, 5, 50)] == [0, 0, 5, 10]

def test_log():
    to = []
    log("some text", to)
    assert to == ["some text"]
"""


def test_mutants_are_single_changes_of_code_that_compiles() -> None:
    mutants = mutants_of("numbers.py", SOURCE)
    for mutant in mutants:
        ast.parse(mutant.mutated)
        assert mutant.mutated != mutant.original
        assert mutant.mutated.count("\n") == SOURCE.count("\n")
    kinds = {mutant.kind for mutant in mutants}
    assert kinds == {
        "and/or swapped",
        "bound moved",
        "call removed",
        "comparison negated",
        "condition fixed",
        "constant changed",
        "not dropped",
        "return value replaced",
    }
    changes = [(mutant.line, mutant.change) for mutant in mutants]
    assert len(changes) == len(set(changes))
    assert (5, "-LIMIT = 10\n+LIMIT = (11)") in changes
    assert all(line not in (1, 3, 9) for line, _ in changes)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    package = tmp_path / "src" / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "numbers.py").write_text(SOURCE)
    (tmp_path / "test_toy.py").write_text(TESTS)
    return tmp_path


def run(toy: Path, *options: str) -> int:
    return mutate.main(
        [
            "numbers.py",
            f"--package-folder={toy / 'src/toy'}",
            f"--root={toy}",
            "--tests=test_toy.py",
            *options,
        ]
    )


def test_killed_and_surviving_mutants_are_told_apart(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in toy.rglob("*.py")}
    assert run(toy, "--at=numbers.py:20", "--at=numbers.py:13") == 1
    output = capsys.readouterr().out
    assert "failed numbers.py:20: call removed" in output  # by `test_log`
    assert "survived numbers.py:13: return value replaced" in output
    assert "score 50%: 1 of 2 mutants killed" in output
    assert {path: path.read_bytes() for path in toy.rglob("*.py")} == before


@pytest.mark.parametrize("options", [(), ("--only-covering",)])
def test_tests_that_do_not_run_the_line_can_be_left_out(
    toy: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    elsewhere = """
def test_in_another_process():
    import subprocess, sys
    code = "from toy.numbers import log; log('ab', to := []); assert len(to) == 2"
    subprocess.run([sys.executable, "-c", code], check=True)
"""
    (toy / "test_toy.py").write_text(TESTS + elsewhere)
    run(toy, "--at=numbers.py:21", *options)
    survived = "survived numbers.py:21: condition fixed" in capsys.readouterr().out
    assert survived == bool(options)


def test_tests_that_fail_without_a_mutant_say_nothing(toy: Path) -> None:
    (toy / "test_toy.py").write_text("def test_it():\n    raise ValueError('as is')\n")
    with pytest.raises(RuntimeError, match="as is"):
        run(toy)


def test_a_sample_is_that_of_its_seed(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = []
    for seed in ("1", "1", "2"):
        assert run(toy, "--list", "--sample=5", f"--seed={seed}") == 0
        listed.append(capsys.readouterr().out)
    assert listed[0] == listed[1] != listed[2]
