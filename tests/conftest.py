"""Settings for all tests.

A test that is skipped because a package is missing is a failure where CI is set: there
everything is installed, and a skip would hide that a test no longer runs. The random
tests are the same in every run there; `--hypothesis-profile=thorough` runs much longer.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

# Before anything imports NumPy or torch: their threads spin while they wait, which took
# more than half of the processor's time where other tests ran beside them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Before anything imports JAX: several devices to put batches on.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

# Where a shell starts the tests in the background they ignore SIGINT, and so would the
# processes that they start: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["leaked_threads", "on_simulated", "on_fake_cupy"]

# In force unless another one is asked for; tests name their own `max_examples`.
settings.register_profile("usual", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile("usual")

APART = ("gpu", "libraries", "mosaic")
"""Markers of tests that need what is not everywhere: a GPU, packages of their own."""

LATE = ("upstreams", "frameworks", "test_tf_data.py", "test_shuffles_tf.py", "on_jax")
"""Folders and files of tests that come last, in this order."""

_MISSING = "could not import"


@pytest.fixture(scope="session", autouse=True)
def folder_of_servers() -> Iterator[None]:
    """Keep servers apart from those of the same names in tests that run beside."""
    folder, process = tempfile.mkdtemp(), os.getpid()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield
    if os.getpid() == process:  # no child that a test has forked
        shutil.rmtree(folder, ignore_errors=True)


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
    """Tests with a marker of `APART` run where they are asked for: `-m gpu`.

    Those that start threads of libraries come last: others fork.
    """
    items.sort(key=_lateness)
    # Not by keyword: that is the name of a folder, too.
    apart = [name for name in APART if name not in config.option.markexpr]
    out = [item for item in items if _has_any(item, apart)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if not _has_any(item, apart)]


def _has_any(item: pytest.Item, markers: list[str]) -> bool:
    return any(item.get_closest_marker(name) for name in markers)


def _lateness(item: pytest.Item) -> int:
    parts = item.path.parts
    return max((rank for rank, name in enumerate(LATE) if name in parts), default=-1)


def _freeze() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Makes no collections of the garbage collector: what test files import stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


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
