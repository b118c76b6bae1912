"""Signatures of the loaders: what type checkers, `help` and `inspect` know of them."""

import ast
import functools
import inspect
import os
import pydoc
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")
pytest.importorskip("accelerate")

import echobuf
import echobuf.accelerate
import echobuf.jax
import echobuf.torch

LOADERS = {
    "echobuf": echobuf.EchoLoader,
    "torch": echobuf.torch.EchoLoader,
    "jax": echobuf.jax.EchoLoader,
    "accelerate": echobuf.accelerate.EchoLoader,
}
MORE = {
    "echobuf": set(),
    "torch": {"uneven", "group", "ahead"},
    "jax": {"sharding"},
    "accelerate": {"uneven", "group", "ahead"},
}
WIDER = {"device"}  # loaders of a framework take its own devices, too


def parameters(callable_):
    return dict(inspect.signature(callable_).parameters)


@pytest.mark.parametrize("name", LOADERS)
def test_all_loaders_have_the_same_arguments(name):
    base, own = parameters(echobuf.EchoLoader), parameters(LOADERS[name])
    assert own.keys() - base.keys() == MORE[name]
    assert list(own)[: len(base)] == list(base)
    for key, parameter in base.items():
        assert own[key].kind == parameter.kind
        assert own[key].default == parameter.default
        assert own[key].annotation == parameter.annotation or key in WIDER
    assert all(each.kind is not each.VAR_KEYWORD for each in own.values())


def test_arguments_of_the_buffer_are_those_of_the_loaders():
    buffer, loader = parameters(echobuf.EchoBuffer), parameters(echobuf.EchoLoader)
    del buffer["spec"], buffer["max_staleness"]  # loaders have no versions
    for key, parameter in buffer.items():
        assert loader[key].kind == parameter.kind
        # With defaults of the loaders' own.
        if key not in ("window", "factor", "ragged"):
            assert loader[key].default == parameter.default
            assert loader[key].annotation == parameter.annotation
    assert buffer["window"].default is inspect.Parameter.empty
    assert buffer["ragged"].default == "packed"
    assert loader["ragged"].default is None  # packed; not None: look for ragged leaves


@pytest.mark.parametrize("name", LOADERS)
def test_help_says_each_argument(name):
    text = pydoc.plain(pydoc.render_doc(LOADERS[name]))
    arguments = re.search(r"Args:\n(.*?)\n[ |]*\n[ |]*Raises:", text, re.DOTALL)
    said = re.findall(r"^ \| {6,7}(\w+): ", arguments.group(1), re.MULTILINE)
    assert said == list(parameters(LOADERS[name]))
    assert "see there" not in text


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("wrong", [{"windwo": 10}, {"pin_memory": True}, {"self": 1}])
def test_an_argument_that_does_not_exist_is_python_s_error(name, wrong):
    with pytest.raises(TypeError, match=f"'{next(iter(wrong))}'"):
        LOADERS[name]([1], batch_size=1, **wrong)


@pytest.mark.parametrize("name", LOADERS)
def test_upstream_may_be_named_and_nothing_else_is_by_position(name):
    assert len(LOADERS[name](upstream=[1, 2], batch_size=1, factor=1)) == 2
    for wrong in ((), ([1], 4)):
        with pytest.raises(TypeError, match="argument"):
            LOADERS[name](*wrong, batch_size=1)


# ---- mypy

CALLS = """
    from fractions import Fraction
    from typing import Any

    import echobuf
    import echobuf.accelerate
    import echobuf.jax
    import echobuf.torch

    data: list[Any] = []
"""
GOOD = """
    {}.EchoLoader(data)
    {}.EchoLoader(data, batch_size=4, window=8, factor=2, unit="example")
    {}.EchoLoader(data, factor="auto", unit="batch", drop_last=True)
    {}.EchoLoader(data, factor=Fraction(5, 2), multiprocessing_context="spawn")
    {}.EchoLoader(data, factor=2.5, sampler=[1, 2], num_workers=2).close()
    len({}.EchoLoader(data).dataset)
    with {}.EchoLoader(data) as loader: loader.max_batches()
"""
BAD = """
    {}.EchoLoader(data, windwo=10)
    {}.EchoLoader(data, window="10")
    {}.EchoLoader(data, factor="Auto")
    {}.EchoLoader(data, factor=None)
    {}.EchoLoader(data, unit="examples")
    {}.EchoLoader(data, batch_size=2.0)
    {}.EchoLoader(data, multiprocessing_context="fork")
    {}.EchoLoader(data, pin_memory=True)
    {}.EchoLoader(data, drop_last="no")
    {}.EchoLoader(data, 4)
    {}.EchoLoader()
"""
ALONE = """
    echobuf.EchoBuffer(data, window=4, batch_size=2, factor="auto", unit="example")
    echobuf.torch.EchoLoader(data, uneven="drop", ahead=2)
    echobuf.accelerate.EchoLoader(data, uneven="pad")
    echobuf.jax.EchoLoader(data, device=None, sharding=None)
"""
ALONE_BAD = """
    echobuf.EchoBuffer(data, batch_size=2)
    echobuf.EchoBuffer(data, window=None)
    echobuf.EchoBuffer(data, window=4, factor="automatic")
    echobuf.EchoBuffer(data, window=4, unit="batches")
    echobuf.EchoLoader(data, uneven="drop")
    echobuf.EchoLoader(data, device=0)
    echobuf.torch.EchoLoader(data, uneven="dorp")
    echobuf.torch.EchoLoader(data, ahead="4")
    echobuf.torch.EchoLoader(data, sharding=None)
    echobuf.accelerate.EchoLoader(data, uneven="dorp")
    echobuf.jax.EchoLoader(data, uneven="drop")
    echobuf.jax.EchoLoader(data, ahead=2)
"""
MODULES = ("echobuf", "echobuf.torch", "echobuf.jax", "echobuf.accelerate")


def lines_of(block, modules=("",)):
    lines = textwrap.dedent(block).strip().splitlines()
    return [line.replace("{}", module) for module in modules for line in lines]


PREAMBLE = lines_of(CALLS)
RIGHT = lines_of(GOOD, MODULES) + lines_of(ALONE)
WRONG = lines_of(BAD, MODULES) + lines_of(ALONE_BAD)


MYPY = ("--config-file=mypy.ini", "--cache-dir=/dev/null")


@functools.cache
def mypy_s_errors() -> frozenset[str]:
    """The lines of a program of all calls that mypy has something against."""
    pytest.importorskip("mypy")
    lines = [*PREAMBLE, *RIGHT, *WRONG]
    root = Path(__file__).parents[2]
    settings = textwrap.dedent(
        """
        [mypy]
        strict = true
        [mypy-torch.*,jax.*,numpy.*,optree.*,accelerate.*]
        follow_imports = skip
        [mypy-echobuf.*]
        ignore_errors = true
        """
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "calls.py").write_text("\n".join(lines) + "\n")
        Path(folder, "mypy.ini").write_text(settings)
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *MYPY, "calls.py"],
            cwd=folder,
            env={**os.environ, "MYPYPATH": str(root / "python"), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    numbers = re.findall(r"^calls\.py:(\d+): error", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Found" in done.stdout, done.stdout + done.stderr
    return frozenset(lines[int(number) - 1] for number in numbers)


def test_the_calls_are_python():
    ast.parse("\n".join([*PREAMBLE, *RIGHT, *WRONG]))


def test_mypy_refuses_each_wrong_call():
    assert [line for line in WRONG if line not in mypy_s_errors()] == []


def test_mypy_takes_each_right_call():
    assert [line for line in [*PREAMBLE, *RIGHT] if line in mypy_s_errors()] == []
