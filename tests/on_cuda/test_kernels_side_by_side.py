"""Kernels of chains are compiled one by one, side by side, each of them once."""

from __future__ import annotations

import os
import re
import signal
import struct
import threading

import numpy as np
import pytest

import echobuf
import fake_cuda
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen, nvrtc
from echobuf.cuda.side_by_side import side_by_side
from echobuf.resources import DaemonThread
from echobuf.spec import make_spec
from helpers import WAIT_S

IMAGE = {"image": echobuf.Field((32, 32, 3), np.uint8)}
CHAIN = [t.RandomCrop(20), t.RandomApply([t.ColorJitter(0.1, 0.1)])]
LEAVES = {name: echobuf.Field((16, 16, 3), np.uint8) for name in "ab"}
TWO_KERNELS = {"a": [t.RandomCrop(9)], "b": [t.ColorJitter(0.1, 0.1)]}
PAIR = ("first", "second")


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def make(spec, transform, device="cuda"):
    return echobuf.EchoBuffer(
        spec, batch_size=2, window=4, device=device, transform=transform
    )


def source_of(chain):
    made = make_output_spec(make_spec(IMAGE), {"image": chain}, whole=False)
    return codegen.stage_source(plan for _, plan in made.plans)


def is_main():
    return threading.current_thread() is threading.main_thread()


def helpers():
    return [x for x in threading.enumerate() if x.name == "echobuf-compile"]


# ---- each kernel once


def test_each_kernel_of_rand_augment_is_compiled_once_and_alone(cupy):
    chain = [t.RandAugment()]
    for _ in range(2):
        make(LEAVES, {"a": chain, "b": chain}).close()
    _, *stages = cupy.compiled
    assert len(stages) == len(set(stages)) > 2 * 13
    for stage in stages:
        assert len(re.findall(r"ECHOBUF_STAGE_MAKE\(", stage)) == 1


def test_chains_share_what_they_have_in_common(cupy):
    first = t.RandomApply([t.RandomRotation(10)])
    make(IMAGE, {"image": [first, t.RandomApply([t.Invert()])]}).close()
    _, *before = cupy.compiled
    make(IMAGE, {"image": [first, t.RandomApply([t.Solarize(9)])]}).close()
    others = cupy.compiled[1 + len(before) :]
    assert 0 < len(others) < len(before)
    assert not set(others) & set(before)


def code_of(cubin):
    """The machine code of each kernel in an ELF file of 64 bits."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [
        struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(count)
    ]
    found = {}
    for name, _, _, _, offset, length in rows:
        at = rows[names][4] + name
        text = cubin[at : cubin.index(b"\0", at)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] = cubin[offset : offset + length]
    return found


def test_kernels_compiled_alone_are_those_compiled_together():
    source = source_of(CHAIN)
    options = (*source.options, "-arch=sm_90")

    def kernels(text):
        with nvrtc.program(text, options) as read:
            return code_of(read("CUBIN"))

    together = kernels(source.text)
    alone = [kernels(program) for program in source.programs]
    assert len(alone) > 1
    assert sum(map(len, alone)) == len(together)
    for place, (making, summing) in zip(source.places, source.entries, strict=True):
        assert alone[place][codegen.STAGE_MAKE] == together[making]
        if summing is not None:
            assert alone[place][codegen.STAGE_SUM] == together[summing]


# ---- side by side


def test_two_are_compiled_at_once_and_come_in_order():
    both = threading.Barrier(2)

    def compile_one(text):
        both.wait(WAIT_S)
        return text.encode()

    assert side_by_side(compile_one, PAIR) == [b"first", b"second"]
    assert helpers() == []


def test_one_text_and_one_core_need_no_thread(monkeypatch):
    on = []

    def compile_one(text):
        on.append(is_main())
        return text.encode()

    side_by_side(compile_one, PAIR[:1])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    side_by_side(compile_one, PAIR)
    assert on == [True] * 3


def test_where_no_thread_can_be_started_the_caller_compiles_all(monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(DaemonThread, "start", start)
    assert side_by_side(str.encode, PAIR) == [b"first", b"second"]


def test_the_device_is_that_of_the_buffer_on_each_thread(cupy, monkeypatch):
    echobuf.warmup("cuda:1")
    both, on = threading.Barrier(2), []
    compile_at_once = cupy.cuda.compiler.compile_using_nvrtc

    def compile_one(text, options):
        both.wait(WAIT_S)
        on.append((is_main(), fake_cuda.get_device()))
        return compile_at_once(text, options)

    monkeypatch.setattr(cupy.cuda.compiler, "compile_using_nvrtc", compile_one)
    make(LEAVES, TWO_KERNELS, "cuda:1").close()
    assert sorted(on) == [(False, 1), (True, 1)]


# ---- what goes wrong


def test_an_error_in_a_thread_arrives_and_nothing_else_is_begun():
    both, begun = threading.Barrier(2), []

    def compile_one(text):
        begun.append(text)
        both.wait(WAIT_S)
        if not is_main():
            raise LookupError("in a thread")
        for helper in helpers():
            helper.join(WAIT_S)
        return b""

    with pytest.raises(LookupError, match="in a thread"):
        side_by_side(compile_one, [str(number) for number in range(9)])
    assert len(begun) == 2


@pytest.mark.parametrize("where", ["caller", "thread"])
def test_a_kernel_that_is_refused_is_said_as_ever(cupy, monkeypatch, where):
    echobuf.warmup("cuda")
    both = threading.Barrier(2)
    compile_at_once = cupy.cuda.compiler.compile_using_nvrtc

    def compile_one(text, options):
        both.wait(WAIT_S)
        if is_main() == (where == "caller"):
            raise cupy.CompileException("error: no storage class")
        return compile_at_once(text, options)

    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda.compiler, "compile_using_nvrtc", compile_one)
        with pytest.raises(echobuf.DeviceError, match=r"cannot compile.*no storage"):
            make(LEAVES, TWO_KERNELS)
    kept = len(cupy.compiled)  # of the draw, and what the other thread has made
    assert kept == 2
    make(LEAVES, TWO_KERNELS).close()
    assert len(cupy.compiled) == 3


def test_ctrl_c_gets_through_once_what_was_begun_is_done(monkeypatch):
    both, waited, done = threading.Barrier(2), threading.Event(), []
    join = DaemonThread.join

    def compile_one(text):
        both.wait(WAIT_S)
        if is_main():
            signal.raise_signal(signal.SIGINT)
        waited.wait(WAIT_S)
        done.append(text)
        return b""

    def told(thread, timeout=None):
        waited.set()
        join(thread, timeout)

    monkeypatch.setattr(DaemonThread, "join", told)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(compile_one, PAIR)
    assert len(done) == 1
    waited.set()
