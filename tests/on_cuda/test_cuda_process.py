"""Forks beside a buffer on a device, each in a process of its own."""

from pathlib import Path

import pytest

import test_process

SETUP = """
import os, sys
import fake_cuda, fake_cupy
import numpy as np
sys.modules["cupy"] = fake_cupy
from echobuf.cuda import cupy_device
from echobuf.cuda.simulated_driver import library_path
cupy_device.LIBRARY = str(library_path())
import echobuf

def make(device="cuda"):
    spec = echobuf.Field((1000,), np.float64)
    return echobuf.EchoBuffer(spec, batch_size=8, window=16, device=device)

def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.exit(7)  # as a child ends that runs to its end
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def said(call):
    try:
        call()
    except echobuf.EchobufError as error:
        print(type(error).__name__, "spawn" in str(error))
"""


def run(code):
    """The lines that a process that ran `code` wrote."""
    here = Path(__file__).parents[1]  # where what stands for CUDA can be imported
    return test_process.run(code, setup=SETUP, cwd=here).splitlines()


START = """
fake_cuda.start()
buffer = make()
buffer.put_batch(np.ones((16, 1000)))
batch = buffer.next_batch(timeout=30)
"""
END = """
assert (buffer.next_batch(timeout=30).get() == 1).all()
buffer.__exit__(None, None, None)
print("parent goes on")
"""
USES = [
    "buffer.put(np.zeros(1000))",
    "buffer.put_batch(np.zeros((3, 1000)))",
    "buffer.next_batch(timeout=5)",
    "buffer.next_batch(batch, timeout=5)",
    "buffer.next_batch(timeout=5, stream=0)",
    "buffer.close()",
    "buffer.reset()",
    "buffer.ready()",
    "buffer.stats()",
    "buffer.state_dict()",
]


def test_a_buffer_of_the_parents_is_refused_in_a_child():
    calls = "\n".join(f"    said(lambda: {use})" for use in USES)
    out = run(f"{START}\ndef work():\n{calls}\nprint(in_child(work))\n{END}")
    assert out == ["ForkError True"] * len(USES) + ["7", "parent goes on"]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_a_new_buffer_in_a_child_is_refused(device):
    code = f"print(in_child(lambda: said(lambda: make({device!r}))))"
    assert run(START + code + END) == ["DeviceError True", "7", "parent goes on"]


def test_a_child_that_leaves_it_alone_ends_as_if_it_were_not_there():
    code = "print(in_child(lambda: None), in_child(lambda: sys.exit(0)))"
    assert run(START + code + END) == ["7 0", "parent goes on"]


def test_a_child_forked_before_anything_uses_cuda_may():
    out = run("""
        def work():
            fake_cuda.start()
            with make() as buffer:
                buffer.put_batch(np.ones((16, 1000)))
                print(buffer.next_batch(timeout=30).shape)
        print(in_child(work))
        """)
    assert out == ["(8, 1000)", "7"]


def test_a_child_forked_while_a_device_is_being_opened_does_not_hang():
    out = run("""
        import threading
        fake_cuda.start()
        opening, go_on = threading.Event(), threading.Event()
        real = cupy_device._open
        def slowly(name, ordinal):
            opening.set()
            go_on.wait()
            return real(name, ordinal)
        cupy_device._open = slowly
        thread = threading.Thread(target=make, args=["cuda:1"])
        thread.start()
        opening.wait()
        print(in_child(lambda: said(lambda: make("cuda:1"))))
        go_on.set()
        thread.join()
        """)
    assert out == ["DeviceError True", "7"]


def test_the_end_of_the_interpreter_with_a_buffer_in_use():
    assert run(START + "print('end')") == ["end"]


# ---- children beside a buffer at work

AT_WORK = """
import gc, signal, threading
from echobuf import transforms as t

fake_cuda.start()
spec = {"image": echobuf.Field((8, 8, 3), np.uint8)}
chain = {"image": [t.RandomHorizontalFlip(), t.ToDtype(np.float32, scale=True)]}

def upstream():
    while True:
        yield {"image": np.ones((8, 8, 3), np.uint8)}

loader = echobuf.EchoLoader(upstream(), batch_size=4, window=16, device="cuda",
                            transform=chain)
batches = iter(loader)
next(batches)
buffer = echobuf.EchoBuffer(spec, batch_size=4, window=16, device="cuda",
                            transform=chain)
# Garbage of the parent's, which only a collection in the child finds.
gc.disable()
cycle = [buffer]
cycle.append(cycle)
del buffer, cycle

def forked(end):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        gc.collect()
        end()
        raise SystemExit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def forked_by_a_thread(end):
    "The child's only thread is that one; the main thread's frames are not there."
    found = []
    thread = threading.Thread(target=lambda: found.append(forked(end)))
    thread.start()
    thread.join()
    return found[0]
"""
ENDS = {
    "lambda: None": 7,
    "lambda: sys.exit(3)": 3,
    "lambda: os._exit(4)": 4,
    "lambda: os.kill(os.getpid(), signal.SIGTERM)": -15,
}


@pytest.mark.parametrize(("end", "status"), ENDS.items())
def test_a_child_beside_a_buffer_at_work_ends_as_if_it_were_not_there(end, status):
    out = run(f"""{AT_WORK}
for _ in range(3):
    print(forked({end}))
print(next(batches)["image"].shape)
os._exit(0)
""")
    assert out == [str(status)] * 3 + ["(4, 8, 8, 3)"]


# SystemExit ends a thread, and says nothing of the process.
ENDS_IN_THREADS = {end: status * (status not in (3, 7)) for end, status in ENDS.items()}


@pytest.mark.parametrize(("end", "status"), ENDS_IN_THREADS.items())
def test_a_child_that_a_thread_forks_ends_as_if_it_were_not_there(end, status):
    out = run(f"""{AT_WORK}
for _ in range(3):
    print(forked_by_a_thread({end}))
print(next(batches)["image"].shape)
os._exit(0)
""")
    assert out == [str(status)] * 3 + ["(4, 8, 8, 3)"]


def test_a_child_that_ends_by_an_exception_says_that_alone():
    out = run(f"""{AT_WORK}
def fail():
    sys.excepthook = lambda kind, error, trace: os.write(1, b"said\\n")
    raise ValueError
print(forked(fail))
os._exit(0)
""")
    assert out == ["said", "1"]


@pytest.mark.parametrize("kind", ["buffer", "chain"])
def test_a_child_drops_the_last_reference(kind):
    what = "loader, batches" if kind == "chain" else "batches"
    out = run(f"""{AT_WORK}
def drop():
    global loader, batches
    del {what}
    gc.collect()
    cupy_device.CupyDevice.stages = None
    from echobuf.cuda import device
    device._opened.clear()
    gc.collect()
print(forked(drop))
print(next(batches)["image"].shape)
os._exit(0)
""")
    assert out == ["7", "(4, 8, 8, 3)"]
