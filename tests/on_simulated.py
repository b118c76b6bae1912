"""Runs tests of the contract on simulated devices, too: a plugin, see conftest.py.

A module that says `pytestmark = pytest.mark.contract` runs on the CPU, and again with
device="cuda" as what buffers and loaders are made with unless a test says otherwise:
once for each seed in `--simulated-seeds`, which is 1 unless told. The kernels are host
builds; with `--simulated-kernels ptx` they are executed as NVRTC compiles them.
Random tests have a fifth of their examples there, and a tenth where kernels are PTX.
With `--real-device` they run on the real CUDA device instead, with batches in pinned
host memory (`on_real_device.py`). In this form that has been tried on the simulated
driver only, with `--stand-in`: a stand-in for CuPy over it.
`pytest.mark.host` is for tests of what is the CPU's alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from echobuf.option_table import OptionTable
from echobuf.testing import simulated_cuda

_SETTINGS = "_hypothesis_internal_use_settings"  # where `@settings` leaves them
_REAL = -1  # in place of a seed: the real device
_stack = pytest.StashKey[contextlib.ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulated-seeds", default="1", help="such as 1,2; '' for none")
    parser.addoption(
        "--simulated-kernels",
        default="host",
        choices=("host", "ptx"),
        help="host builds, or their PTX",
    )
    parser.addoption(
        "--real-device",
        action="store_true",
        help="run tests of the contract on the real CUDA device alone",
    )
    parser.addoption(
        "--stand-in",
        action="store_true",
        help="try --real-device with a stand-in for CuPy over the simulated driver",
    )


@pytest.fixture(scope="session")
def simulation_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed that the test runs with; None on the CPU."""
    return request.param


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    markers = {marker.name for marker in metafunc.definition.iter_markers()}
    if "contract" not in markers or "host" in markers:
        return
    metafunc.fixturenames.append("simulation_seed")
    if metafunc.config.getoption("--real-device"):
        ids = ["real-device"]
        metafunc.parametrize("simulation_seed", [_REAL], indirect=True, ids=ids)
        return
    text = metafunc.config.getoption("--simulated-seeds")
    seeds = [int(seed) for seed in text.split(",") if seed]
    ids = ["cpu", *(f"simulated-{seed}" for seed in seeds)]
    metafunc.parametrize("simulation_seed", [None, *seeds], indirect=True, ids=ids)


def _seed_of(item: pytest.Item) -> int | None:
    parameters = getattr(item, "callspec", None)
    return parameters.params.get("simulation_seed") if parameters else None


@contextlib.contextmanager
def _on_device(seed: int, config: pytest.Config) -> Generator[None]:
    with _device(seed, config):
        OptionTable.device.default = "cuda"
        try:
            yield
        finally:
            OptionTable.device.default = "cpu"


def _device(seed: int, config: pytest.Config) -> contextlib.AbstractContextManager[Any]:
    if seed != _REAL:
        return simulated_cuda(seed, config.getoption("--simulated-kernels"))
    import on_real_device

    if config.getoption("--stand-in"):
        return on_real_device.stand_in()
    return on_real_device.real_device()


@contextlib.contextmanager
def _fewer_examples(test: Any, kernels: str) -> Generator[None]:
    """Fewer random examples: they take longer there, and seeds add up."""
    usual = getattr(test, _SETTINGS, None)
    if usual is None:
        yield
        return
    fewer = -(-usual.max_examples // (10 if kernels == "ptx" else 5))
    setattr(test, _SETTINGS, settings(usual, max_examples=fewer))
    try:
        yield
    finally:
        setattr(test, _SETTINGS, usual)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_stack] = contextlib.ExitStack()
    seed = _seed_of(item)
    if seed is not None:
        kernels = item.config.getoption("--simulated-kernels")
        item.stash[_stack].enter_context(_on_device(seed, item.config))
        item.stash[_stack].enter_context(_fewer_examples(item.obj, kernels))
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fails a test for which the simulated driver has reports."""
    with item.stash[_stack]:
        return (yield)
