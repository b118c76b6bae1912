"""Signals, forks and the exit of the interpreter, each in a process of its own."""

import subprocess
import sys
import textwrap

import pytest

LIMIT_S = 240  # a process that takes longer hangs

SETUP = """
import os, signal, sys, threading, time
import numpy as np
import echobuf

def make(prefetch=0, rows=1000, **kwargs):
    kwargs = {"batch_size": 8, "window": 16, "prefetch": prefetch, **kwargs}
    return echobuf.EchoBuffer(echobuf.Field((rows,), np.float64), **kwargs)

def start(call, *args):
    def run():
        while True:
            call(*args)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)

def status_of(child):
    ended = []
    until(lambda: ended.append(os.waitpid(child, os.WNOHANG)) or ended[-1][0])
    return os.waitstatus_to_exitcode(ended[-1][1])
"""


def run(code, *, setup=SETUP, status=0, cwd=None):
    """Return the output of a process that ran `code`; it must end well."""
    # Python 3.12 and later warn of every fork beside a thread.
    quiet = "ignore:This process:DeprecationWarning"
    done = subprocess.run(
        [sys.executable, "-W", quiet, "-c", setup + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=cwd,
    )
    assert done.stderr == ""
    assert done.returncode == status
    return done.stdout


# ---- Ctrl-C

CALLS = {
    "put": ("buffer.put(np.zeros(1000))", True, 0),
    "put_batch": ("buffer.put_batch(np.zeros((1000, 1000)))", True, 0),
    "next_batch": ("buffer.next_batch()", False, 0),
    "next_batch into": ("buffer.next_batch(out=np.zeros((8, 1000)))", False, 2),
    "iteration": ("next(buffer)", False, 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_gets_through(call):
    code, full, prefetch = CALLS[call]
    out = run(f"""
        buffer = make(prefetch={prefetch}, factor="auto", window=64)
        if {full}:
            try:
                buffer.put_batch(np.ones((999, 1000)), timeout=0)
            except TimeoutError:
                pass
        def interrupt():
            stats = buffer.stats
            until(lambda: stats().put_wait_s + stats().next_wait_s > 0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            {code}
        except KeyboardInterrupt as error:
            print("through", getattr(error, "accepted", 0))
        """)
    assert out == "through 0\n"  # else the call would wait for ever


def test_after_ctrl_c_the_buffer_goes_on_and_knows_what_was_put():
    out = run("""
        buffer = make(factor=2)
        def interrupt():
            until(lambda: buffer.stats().put_wait_s > 0)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        batch = np.arange(100.0)[:, None] * np.ones(1000)
        try:
            buffer.put_batch(batch)
        except KeyboardInterrupt as error:
            done = error.accepted
        assert done == buffer.stats().fresh == 24
        threading.Thread(
            target=lambda: (buffer.put_batch(batch[done:]), buffer.close())
        ).start()
        seen = np.concatenate([b[:, 0] for b in buffer])
        print(np.unique(seen, return_counts=True)[1].tolist() == [2] * 100)
        """)
    assert out == "True\n"


# ---- fork

USES = [
    "buffer.put(np.zeros(1000))",
    "buffer.put_batch(np.zeros((3, 1000)))",
    "buffer.next_batch()",
    "buffer.next_batch(out=np.zeros((8, 1000)))",
    "next(buffer)",
    "buffer.ready()",
    "buffer.close()",
    "buffer.fail(ValueError())",
    "buffer.reset()",
    "buffer.stats()",
    "buffer.state_dict()",
    "buffer.load_state_dict(state)",
]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_any_use_in_a_forked_child_is_a_fork_error(prefetch):
    run(f"""
        buffer = make(prefetch={prefetch})
        state = buffer.state_dict()
        buffer.put_batch(np.zeros((16, 1000)))
        if (child := os.fork()) == 0:
            for use in {USES!r}:
                try:
                    exec(use)
                except echobuf.ForkError as error:
                    assert isinstance(error, RuntimeError)
                else:
                    raise AssertionError(use)
            buffer.__exit__(None, None, None)
            own = make(prefetch={prefetch})  # a child may make its own
            own.put_batch(np.ones((16, 1000)))
            assert own.next_batch(timeout=20).all()
            sys.exit(0)
        assert status_of(child) == 0
        assert buffer.next_batch(timeout=20).shape == (8, 1000)
        """)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_child_that_leaves_the_buffer_alone_exits_as_if_it_were_not_there(prefetch):
    run(f"""
        buffer = make(prefetch={prefetch})
        batch = np.zeros((16, 1000))
        for _ in range(2):
            start(buffer.put_batch, batch)
            start(buffer.next_batch)
        start(buffer.stats)  # keeps the GIL busy: others are on their way back to it
        for turn in range(10):
            held = buffer.next_batch()
            if (child := os.fork()) == 0:
                if turn % 2:
                    del buffer, held
                sys.exit(0)
            assert status_of(child) == 0
        """)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_worker_processes_beside_a_live_buffer(prefetch):
    pytest.importorskip("torch")
    run(f"""
        import torch
        buffer = make(prefetch={prefetch})
        batch = np.zeros((16, 1000))
        start(buffer.put_batch, batch)
        start(buffer.next_batch)
        data = torch.arange(40)
        for _ in range(3):
            loader = torch.utils.data.DataLoader(
                data, batch_size=5, num_workers=2, multiprocessing_context="fork"
            )
            assert torch.cat(list(loader)).tolist() == list(range(40))
        """)


# ---- exit

EXITS = {
    "waiting in put": "start(buffer.put, np.zeros(1000))",
    "waiting in put_batch": "start(buffer.put_batch, np.zeros((99, 1000)))",
    "waiting in next_batch": "start(buffer.next_batch)",
    "busy": """
start(buffer.put_batch, np.zeros((99, 1000)))
start(buffer.next_batch)
start(buffer.next_batch, np.zeros((8, 1000)))
start(buffer.ready)
start(buffer.stats)
""",
    "loader": """
loader = echobuf.EchoLoader(
    [np.zeros(1000)] * 999, batch_size=8, window=16, prefetch=prefetch
)
epoch = iter(loader)
for _ in range(3):
    next(epoch)
""",
    "loader that sleeps": """
def upstream():
    yield from [np.zeros(10)] * 20
    time.sleep(1000)
loader = echobuf.EchoLoader(upstream(), batch_size=4, window=16, factor=2)
epoch = iter(loader)
next(epoch)
""",
}


@pytest.mark.parametrize("case", EXITS)
def test_the_exit_of_the_interpreter_is_quick_and_quiet(case):
    """It ends 8 times in forked children with a clean slate, then itself."""
    run(f"""
        def use(turn):
            global buffer, prefetch
            prefetch = turn % 4
            buffer = make(prefetch=prefetch)
            exec({EXITS[case]!r}, globals())
            if turn % 2:
                time.sleep(0.01)  # sometimes while they wait, sometimes before

        for turn in range(8):
            if (child := os.fork()) == 0:
                use(turn)
                sys.exit(0)
            status = status_of(child)
            assert status == 0, (turn, status)
        use(3)
        """)


def test_importing_brings_in_no_framework():
    out = run("""
        heavy = {"torch", "jax", "cupy", "ray", "matplotlib", "rich", "PIL", "sklearn"}
        print(sorted(heavy & set(sys.modules)))
        """)
    assert out == "[]\n"
