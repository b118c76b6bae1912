"""Common parts of the tests of the demo; conftest.py has the server."""

from typing import Any

import pytest


def require_demo() -> None:
    """Skips the calling module where a package of the demo is missing."""
    for module in ("torch", "rich", "matplotlib", "PIL", "sklearn"):
        pytest.importorskip(module, reason="needs the extra data-echoing[demo]")


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds


def point(seconds, accuracy=0.9, factor=1.0) -> Any:
    from echobuf.cli.demo.training import Point

    return Point(
        seconds=seconds,
        fresh=3200,
        steps=int(100 * factor),
        waited_s=seconds / 2,
        factor=factor,
        accuracy=accuracy,
        smoothed=accuracy,
        settled=True,
    )


def outcome(*results) -> Any:
    """Runs that ended after some seconds; None for one that missed its target."""
    from echobuf.cli.demo.report import Costs, DemoResult
    from echobuf.cli.demo.settings import CONDITIONS, Settings
    from echobuf.cli.demo.training import Run

    factors = (1.0, 5.0, 6.5, 6.0)
    runs = [
        Run(
            condition,
            seconds is not None,
            (point(1.0, 0.5, factor), point(seconds or 75.0, 0.96, factor)),
        )
        for condition, seconds, factor in zip(
            CONDITIONS, results, factors, strict=False
        )
    ]
    costs = Costs(upstream_s=0.002, downstream_s=0.0004)
    return DemoResult(Settings(), costs, 123_000.0, tuple(runs))


def check_json(content):
    assert content["format"] == 1
    assert content["command_line"][:2] == ["echobuf", "demo"]
    assert content["settings"]["seed"] == content["seed"]
    assert {"echobuf", "target", "verdicts"} <= content.keys()
    assert {"python", "numpy", "torch"} <= content["versions"].keys()
    assert {"commit", "cpu", "cores", "load_average"} <= content["environment"].keys()
    assert content["environment"]["cpu"]
    measured = content["measured"]
    assert measured["R"] == measured["t_upstream_s"] / measured["t_downstream_s"]
    assert measured["bandwidth_kb_s"] > 0
    keys = [run["key"] for run in content["runs"]]
    assert keys == ["none", "batch", "example", "before"][: len(keys)]
    for run in content["runs"]:
        last = run["curve"][-1]
        assert run["seconds"] in (None, last["seconds"])
        assert run["reached"] == (run["seconds"] is not None)
        for key in ("fresh", "steps", "effective_factor", "waited_s", "accuracy"):
            assert run[key] >= 0
