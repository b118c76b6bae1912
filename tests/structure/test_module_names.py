"""Modules of the tests share one import path, so that no two have the same name."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parents[1]
# pytest imports these by their files; each folder may have one.
EXEMPT = {"conftest.py", "__init__.py"}


def folders_on_path(root: Path, configured: Iterable[Path]) -> set[Path]:
    """Return the folders that pytest puts on the import path, by "prepend" too.

    Args:
        root: the folder of all tests.
        configured: the setting `pythonpath`.
    """
    folders = set(configured)
    for pattern in ("test_*.py", "conftest.py"):
        for path in root.rglob(pattern):
            folder = path.parent
            while (folder / "__init__.py").exists():
                folder = folder.parent
            folders.add(folder)
    return folders


def equal_names(folders: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the modules and packages that another one hides, by their name."""
    found = defaultdict(list)
    for folder in sorted(folders):
        for path in folder.iterdir():
            is_module = path.suffix == ".py" and path.name not in EXEMPT
            if is_module or (path / "__init__.py").exists():
                found[path.stem].append(path)
    return {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}


def test_each_module_of_the_tests_has_a_name_of_its_own(pytestconfig):
    folders = folders_on_path(TESTS, pytestconfig.getini("pythonpath"))
    assert {TESTS, TESTS / "loader", TESTS / "slow" / "frameworks"} <= folders
    assert not equal_names(folders)


def test_equal_names_are_found(tmp_path):
    files = [
        "helpers.py",
        "conftest.py",
        "data/programs.py",  # on the path by the setting
        "slow/conftest.py",
        "slow/programs.py",
        "slow/test_a.py",
        "whole/__init__.py",  # a package, whose modules have its name before theirs
        "whole/test_whole.py",
        "whole/programs.py",
        "unseen/programs.py",  # on no path
        "other/test_b.py",
        "other/whole.py",
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folders = folders_on_path(tmp_path, [tmp_path / "data"])
    assert folders == {tmp_path, *(tmp_path / n for n in ("data", "slow", "other"))}
    assert equal_names(folders) == {
        "programs": [tmp_path / "data/programs.py", tmp_path / "slow/programs.py"],
        "whole": [tmp_path / "other/whole.py", tmp_path / "whole"],
    }
