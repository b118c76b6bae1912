"""A thread that waits for itself: lines and errors say what is there, and what not."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, Field
from helpers import WAIT_S
from progress_lines import progress_lines

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 32, "factor": 1}


@pytest.fixture
def lines():
    with progress_lines() as lines:
        yield lines


def fixed(begin, end):
    return np.arange(begin, end)


def ragged(begin, end):
    return [np.full(n % 3, n) for n in range(begin, end)]


def pairs(begin, end):
    rows = ragged(begin, end)
    offsets = np.cumsum([0, *map(len, rows)])
    return echobuf.Ragged(np.concatenate(rows), offsets)


def whole(begin, end):
    return np.arange(begin, end)[:, None] * np.ones((1, 4), np.int64)


CASES = {
    "fixed": (Field((), np.int64), fixed, {}),
    "ragged": (Field((None,), np.int64), ragged, {"payload_bytes": 99_999}),
    "pairs": (Field((None,), np.int64), pairs, {"payload_bytes": 99_999}),
    "whole": (Field(4, np.int64), whole, {"unit": "batch", "batch_size": None}),
}


def listed(batch):
    rows = batch.to_list() if isinstance(batch, echobuf.Ragged) else batch
    return [row.tolist() for row in rows]


@pytest.mark.parametrize("out", [False, True])
def test_a_draw_before_a_segment_is_there(lines, out):
    buffer = EchoBuffer(Field((), np.int64), **KWARGS)
    buffer.put_batch(np.arange(8))
    with pytest.raises(TimeoutError, match=r"`timeout`: 8 of 32 fresh examples are"):
        buffer.next_batch(timeout=0)

    def free():
        lines.wait()
        buffer.put_batch(np.arange(8, 40))
        buffer.close()

    thread = threading.Thread(target=free)
    thread.start()
    batch = buffer.next_batch(out=np.empty(4, np.int64) if out else None)
    thread.join(WAIT_S)
    assert len(batch) == 4
    (line,) = lines.texts
    assert "for a batch of a buffer: 8 of 32 fresh examples are there; put more" in line


@pytest.mark.parametrize("version", [None, 1, "each"])
@pytest.mark.parametrize("case", CASES)
def test_a_put_into_a_full_ring_by_the_thread_that_draws(lines, case, version):
    spec, make, kwargs = CASES[case]
    with EchoBuffer(spec, **{**KWARGS, **kwargs}, with_info=True) as buffer:
        buffer.put_batch(make(0, 32))
        drawn = [buffer.next_batch()]

        def free():
            lines.wait()
            drawn.extend(buffer)

        thread = threading.Thread(target=free)
        thread.start()
        versions = np.arange(32, 200) if version == "each" else version
        buffer.put_batch(make(32, 200), version=versions)
        buffer.close()
        thread.join(WAIT_S)
        (line,) = lines.texts
        assert "for room in a buffer: " in line
        assert re.search(r"were put, and [14] draws served; call `next_batch`", line)
        rows = [row for batch, _ in drawn for row in listed(batch)]
        whole_batches = make(0, 200).ravel() if case == "whole" else make(0, 200)
        assert sorted(rows) == sorted(listed(whole_batches))
        if version == "each":
            for _, info in drawn:
                late = info.index >= 32
                assert (info.version[late] == info.index[late]).all()


PROGRAM = """
import logging
import numpy as np
import echobuf

class Closes(logging.Handler):
    def emit(self, record):
        print(record.getMessage())
        buffer.close()  # on the thread of the line: there is no other one

logging.getLogger("echobuf").addHandler(Closes())
spec = echobuf.Field((), np.int64)
buffer = echobuf.EchoBuffer(spec, batch_size=4, window=32, factor=1)
try:
    buffer.put_batch(np.arange(1000))
except echobuf.ClosedError as error:
    print(error.accepted)
"""


def test_the_first_put_into_a_full_ring_of_the_only_thread():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "ECHOBUF_PROGRESS": "0.05"},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    line, accepted = done.stdout.splitlines()
    assert "for room in a buffer: " in line
    assert f"{accepted} examples were put, and 0 draws served; call `next_ba" in line
    assert 32 <= int(accepted) < 1000


def test_a_put_that_another_thread_makes_room_for_has_no_line(lines):
    buffer = EchoBuffer(Field((), np.int64), **KWARGS)
    buffer.put_batch(np.arange(32))
    is_late = threading.Event()

    def draw():
        buffer.next_batch()
        is_late.wait(0.5)
        list(buffer)

    thread = threading.Thread(target=draw)
    thread.start()
    buffer.put_batch(np.arange(200))
    buffer.close()
    thread.join(WAIT_S)
    assert not [line for line in lines.texts if "room" in line]


def test_a_timeout_of_a_put_says_what_is_there():
    buffer = EchoBuffer(Field((), np.int64), **KWARGS)
    with pytest.raises(TimeoutError) as caught:
        buffer.put_batch(np.arange(1000), timeout=0)
    accepted = caught.value.accepted
    said = str(caught.value)
    assert f"In all {accepted} examples were put, and 0 draws served." in said
    assert "Draw batches meanwhile" in said
