"""torch in a worker process is as in that of a DataLoader, however late it comes."""

import importlib
import sys

import pytest

from echobuf.workers.late_import import when_imported
from worker_data import load


def test_a_dataset_that_imports_torch_with_its_first_example():
    pytest.importorskip("torch")
    from late_torch import LateTorch

    loader = load(LateTorch(24), 2, factor=1, window=4)
    rows = {tuple(row) for batch in loader for row in batch["x"].tolist()}
    assert {row[:3] for row in rows} <= {(0, 1, 1), (1, 1, 1)}
    assert len({row[3] for row in rows}) == 24  # no two draw the same


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that says how often it was imported."""
    name = "echobuf_late_module"
    (tmp_path / f"{name}.py").write_text("import os\nfails = 'X' in os.environ\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    before = list(sys.meta_path)
    yield name
    sys.modules.pop(name, None)
    assert sys.meta_path == before


def test_actions_run_once_in_turn_when_it_is_imported(module):
    seen = []
    when_imported(module, lambda it: seen.append((2, it.__spec__.loader)))
    when_imported(module, lambda it: seen.append((1, it.__loader__)))
    assert not seen
    imported = importlib.import_module(module)
    assert [number for number, _ in seen] == [2, 1]
    assert {type(loader).__name__ for _, loader in seen} == {"SourceFileLoader"}
    when_imported(module, lambda it: seen.append((3, it)))
    assert seen[2:] == [(3, imported)]
    importlib.reload(imported)
    assert len(seen) == 3


def test_an_action_that_raises_runs_again(module):
    runs = []

    def act(it):
        runs.append(it)
        if len(runs) == 1:
            raise ValueError("not yet")

    when_imported(module, act)
    with pytest.raises(ValueError, match="not yet"):
        importlib.import_module(module)
    importlib.import_module(module)
    assert len(runs) == 2
