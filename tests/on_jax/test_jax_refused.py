"""Refusals of `echobuf.jax.EchoLoader`, and their messages."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import echobuf
import echobuf.jax

OPTIONS = {"batch_size": 2, "window": 4}


class Unknown:
    """Neither a leaf nor a node."""


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        ("cuda", echobuf.DeviceError, r"'cuda', but this JAX .* sees no CUDA device"),
        ("cuda:7", echobuf.DeviceError, "'cuda:7', but this JAX"),
        ("tpu", echobuf.OptionError, "`device` is 'tpu'; it must be"),
        ("cpu:1", echobuf.OptionError, "`device` is 'cpu:1'; it must be"),
        (3, echobuf.OptionError, "`device` is 3; it must be"),
    ],
)
def test_devices(device, error, message):
    with pytest.raises(error, match=message):
        echobuf.jax.EchoLoader([np.zeros(2)], device=device, **OPTIONS)


def test_a_sharding_is_no_device():
    where = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    with pytest.raises(echobuf.OptionError, match="give a sharding as `sharding=`"):
        echobuf.jax.EchoLoader([np.zeros(2)], device=where, **OPTIONS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"a": Unknown()}, r"\['a'\]` is of type Unknown, not an array"),
        (lambda: {"a": "text"}, r"\['a'\]` is of type str, not an array"),
        (lambda: {"a": jax.random.key(0)}, r"\['a'\]` is a PRNGKeyArray that NumPy"),
        (lambda: {"a": np.zeros(2, ">f4")}, r"\['a'\]` has dtype >f4, which JAX"),
        (lambda: {"a": np.zeros(2, "M8[s]")}, r"\['a'\]` has dtype <M8\[s\]"),
        (lambda: {"a": np.zeros(2, np.longdouble)}, r"\['a'\]` has dtype <f16"),
        (dict, "no leaves"),
    ],
)
def test_items(make, message):
    loader = echobuf.jax.EchoLoader([make()], **OPTIONS)
    with pytest.raises(echobuf.SpecError, match=message):
        iter(loader)


def test_arguments_that_do_not_exist():
    with pytest.raises(TypeError, match="nonsense"):
        echobuf.jax.EchoLoader([1], nonsense=1, **OPTIONS)


def test_one_iterator_at_a_time():
    loader = echobuf.jax.EchoLoader([np.float32(i) for i in range(20)], **OPTIONS)
    first = iter(loader)
    next(first)
    iter(loader)
    with pytest.raises(echobuf.ClosedError, match="one iterator"):
        next(first)


def test_jax_is_imported_only_with_echobuf_jax():
    program = (
        "import sys, echobuf; assert 'jax' not in sys.modules; "
        "import echobuf.jax; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
