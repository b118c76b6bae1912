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
    pair = load("network_pair")
    settings = Settings(target=0.5, bandwidth_kb_s=1e9, calibration_s=0.2)
    settings = replace(settings, device="cuda", width=4)
    with opened(settings) as (task, server):
        rates = {pair.WITHOUT.key: 0.03, pair.WITH.key: 0.03}
        found = pair.measure(task, server, rates, float("inf"), echoed_first=True)
    assert found.without.reached
    assert found.echoed.reached
    assert found.echoed.end.factor > found.without.end.factor
    assert found.costs.ratio > 0
