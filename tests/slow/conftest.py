"""Fixture that imports an experiment by its name."""

import pytest

from scripts import EXPERIMENTS, importable


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, EXPERIMENTS) as load:
        yield load
