"""torch in a worker process is set up as in a DataLoader's, even if imported late."""

import importlib
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec

import pytest

from echobuf.workers.main import when_imported
from worker_data import load_spawned


def test_a_dataset_that_imports_torch_with_its_first_example(monkeypatch):
    pytest.importorskip("torch")
    from late_torch import LateTorch

    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # torch would start so many
    loader = load_spawned(LateTorch(24), 2, factor=1, window=4)
    rows = {tuple(row) for batch in loader for row in batch["x"].tolist()}
    assert {row[:3] for row in rows} <= {(0, 1, 1), (1, 1, 1)}
    assert len({row[3] for row in rows}) == 24  # no two draw the same


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the name of a module that counts its imports."""
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


class Special(types.ModuleType):
    """A module made by a custom loader."""


class Maker:
    """A finder and loader of one module."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path, target=None):
        return ModuleSpec(name, self) if name == self.name else None

    def create_module(self, spec):
        return Special(spec.name)

    def exec_module(self, module):
        module.fails = False


def test_a_loader_makes_its_own_module(module, monkeypatch):
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [Maker(module), *sys.meta_path])
        when_imported(module, seen.append)
        imported = importlib.import_module(module)
    assert type(imported) is Special
    assert seen == [imported]


def test_a_module_that_was_made_by_hand_has_no_spec(module):
    seen = []
    when_imported(module, seen.append)
    made = types.ModuleType(module)
    importlib.util.find_spec(module).loader.exec_module(made)
    assert seen == [made]
    assert made.fails is False
