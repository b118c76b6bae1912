"""Settings for all tests.

A test that is skipped because a package is missing is a failure where CI is set: there
everything is installed, and a skip would hide that a test no longer runs. The random
tests are the same in every run there; `--hypothesis-profile=thorough` runs much longer.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

# Before anything imports JAX: several devices to put batches on.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

pytest_plugins = ["on_simulated", "on_fake_cupy"]

# In force unless another one is asked for; tests name their own `max_examples`.
settings.register_profile("usual", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile("usual")

_MISSING = "could not import"


def _becomes_failure(report: Any) -> bool:
    return bool(
        os.environ.get("CI") and report.skipped and _MISSING in str(report.longrepr)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _becomes_failure(report):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if _becomes_failure(report):
        report.outcome = "failed"
    return report


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Tests that need a GPU run where they are asked for: `-m gpu`.

    Those of JAX come last: it starts threads, and others fork.
    """
    items.sort(key=lambda item: "on_jax" in item.path.parts)
    if "gpu" in config.option.markexpr:
        return
    # Not by keyword: that is the name of a folder, too.
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu:
        config.hook.pytest_deselected(items=gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def _freeze() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """Collections of the tests look at what the tests make, not at what they import."""
    _freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None]:
    """Nor at what a test file imported when it ran: torch, matplotlib, ..."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _freeze()
    return result
