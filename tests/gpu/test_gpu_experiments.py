"""The demo's training with its window and its model on a device."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

from dataclasses import replace

import pytest

for module in ("torch", "rich", "matplotlib", "PIL", "sklearn"):
    pytest.importorskip(module, reason="needs the extra data-echoing[demo]")

from echobuf.cli.demo.session import opened
from echobuf.cli.demo.settings import Settings
from scripts import EXPERIMENTS, importable

pytestmark = pytest.mark.gpu


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, EXPERIMENTS) as load:
        yield load


@pytest.mark.usefixtures("cuda")
def test_digits_are_learnt_on_the_device(load):
    network = load("network_ways")
    settings = Settings(target=0.5, bandwidth_kb_s=1e9, calibration_s=0.2)
    settings = replace(settings, device="cuda", width=4)
    ways = network.all_ways([5])
    with opened(settings) as (task, server):
        rates = dict.fromkeys((way.key for way in ways), 0.03)
        found = network.measure(task, server, ways[::-1], rates, float("inf"))
    without, echoed = (found.runs[way.key] for way in ways)
    assert without.reached
    assert echoed.reached
    assert echoed.end.factor > without.end.factor
    assert found.costs.ratio > 0
