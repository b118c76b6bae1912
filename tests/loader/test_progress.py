"""`set_progress`: one line about a wait that lasts, and none otherwise."""

import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import echobuf
from helpers import WAIT_S
from progress_lines import AFTER_S, progress_lines

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

FRESH = np.zeros(2, np.float32)


@pytest.fixture
def lines():
    with progress_lines() as lines:
        yield lines


class Held:
    """An upstream whose item `at` comes once so many lines were written."""

    def __init__(self, n, at, wait):
        self.n, self.at, self.wait = n, at, wait

    def __iter__(self):
        for number in range(self.n):
            if number == self.at:
                self.wait()
            yield FRESH


def loader_of(upstream, **kwargs):
    return echobuf.EchoLoader(
        upstream, **{"batch_size": 4, "window": 16, "factor": 1, **kwargs}
    )


def test_a_window_that_fills(lines):
    batches = list(loader_of(Held(32, 10, lines.wait)))
    assert len(batches) == 8
    (line,) = lines.texts  # one line, though the wait went on for longer
    assert "for the first batch: 10 of 16 fresh examples of the window are" in line
    assert "`next` of upstream has not returned" in line


def test_an_upstream_that_becomes_slow(lines):
    assert len(list(loader_of(Held(64, 37, lines.wait)))) == 16
    (line,) = lines.texts
    assert " for a batch: 37 of 48 fresh examples are there" in line


def test_a_rate_and_an_estimate(lines):
    def items():
        while not lines.texts:  # at a pace of its own
            threading.Event().wait(AFTER_S / 50)
            yield FRESH

    loader = loader_of(items(), window=10**5)
    next(iter(loader), None)
    assert "/s, about " in lines.texts[0]
    assert lines.texts[0].split(" (echobuf.")[0].endswith(" to go")
    loader.close()


def test_the_first_item(lines):
    assert len(list(loader_of(Held(16, 0, lines.wait)))) == 4
    (line,) = lines.texts
    assert "for the first item: `next` of upstream has not returned" in line


@pytest.mark.parametrize("factor", ["auto", 1, 2, 3, 2.5])
def test_the_wait_ends_with_the_number_named(lines, factor):
    """Upstream stops short of it by one, and a line says of how many."""
    loader = loader_of(Held(10**6, 3, lines.wait), factor=factor, seed=1)
    batches = iter(loader)
    next(batches)
    words = lines.texts[0].partition("batch: 3 of ")[2].split()
    needed = int(words[0])
    loader.close()

    short = threading.Event()

    class Short:
        def __iter__(self):
            yield from [FRESH] * (needed - 1)
            short.wait(WAIT_S)
            yield FRESH

    loader = loader_of(Short(), factor=factor, seed=1)
    batches = iter(loader)
    lines.texts.clear()
    echobuf.set_progress(AFTER_S)  # the next line is not held back by the last
    ending = threading.Thread(target=lambda: (lines.wait(), short.set()))
    ending.start()
    next(batches)
    ending.join()
    assert f"{needed - 1} of {needed} " in lines.texts[0]
    loader.close()


def test_examples_that_are_skipped(lines):
    first = loader_of(Held(64, None, None))
    batches = iter(first)
    for _ in range(9):
        next(batches)
    state = first.state_dict()
    first.close()
    loader = loader_of(Held(64, 20, lines.wait))
    loader.load_state_dict(state)
    assert len(list(loader)) == 7
    assert "examples before the loaded state are still to be skipped" in lines.texts[0]


def test_once_in_every_so_many_seconds(lines):
    echobuf.set_progress(AFTER_S, every_s=AFTER_S)
    list(loader_of(Held(16, 10, lambda: lines.wait(3))))
    assert len(lines.texts) >= 3
    explained = [text for text in lines.texts if "set_progress" in text]
    assert len(explained) <= 1


def test_threads_that_draw_from_one_iterator(lines):
    echobuf.set_progress(AFTER_S / 5, every_s=0)
    batches = iter(loader_of(Held(64, 37, lambda: lines.wait(4))))
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.extend(batches)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 16


def test_the_end_of_an_epoch_that_was_left(lines):
    inside = threading.Event()

    def hold():
        inside.set()
        lines.wait()

    loader = loader_of(Held(64, 30, hold))
    batches = iter(loader)
    next(batches)
    assert inside.wait(WAIT_S)
    del batches
    loader.close()
    assert any("current `next` to return" in line for line in lines.texts)


def test_no_line_where_none_is_wanted(lines):
    for after_s in (None, 0):
        echobuf.set_progress(after_s)
        go_on = threading.Timer(4 * AFTER_S, lambda: None)
        go_on.start()
        assert len(list(loader_of(Held(16, 10, go_on.join)))) == 4
    assert not lines.texts


@pytest.mark.parametrize("size", [1, 4])
def test_a_line_names_the_rank_where_there_are_several(lines, size, monkeypatch):
    ranks = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 0,
        get_world_size=lambda: size,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", ranks)
    list(loader_of(Held(16, 10, lines.wait)))
    begun = "echobuf (rank 0): waiting " if size > 1 else "echobuf: waiting "
    assert lines.texts[0].startswith(begun)


def test_a_buffer_writes_nothing(lines):
    buffer = echobuf.EchoBuffer(FRESH, batch_size=4, window=16)
    with pytest.raises(TimeoutError):
        buffer.next_batch(timeout=3 * AFTER_S)
    assert not lines.texts


@pytest.mark.parametrize("bad", [-1, True, False, "10", float("nan"), float("inf")])
def test_refused(bad):
    with pytest.raises(
        echobuf.OptionError,
        match=r"`after_s` is .* number of seconds.* None or 0 turns",
    ):
        echobuf.set_progress(bad)
    with pytest.raises(echobuf.OptionError, match="`every_s` is"):
        echobuf.set_progress(1, every_s=bad)


def test_numbers_of_numpy_are_seconds():
    try:
        echobuf.set_progress(np.float32(2), every_s=np.int64(3))
    finally:
        echobuf.set_progress()


PROGRAM = """
import sys
import time
from tqdm import tqdm
import echobuf

def items():
    for number in range(8):
        if number == 5:
            time.sleep(float(sys.argv[1]))
        yield float(number)

loader = echobuf.EchoLoader(items(), batch_size=4, window=8, factor=1)
for _ in tqdm(loader, mininterval=0):
    pass
"""


@pytest.mark.parametrize(("setting", "count"), [("0.05", 1), ("0", 0), ("soon", 0)])
def test_a_line_on_stderr_as_the_environment_says(setting, count):
    """Without any configuration, and a whole line beside a bar of tqdm's."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "0.5"],
        env={"ECHOBUF_PROGRESS": setting},
        capture_output=True,
        text=True,
        check=True,
    )
    whole = [line for line in done.stderr.splitlines() if line.startswith("echobuf: ")]
    assert len(whole) == done.stderr.count("echobuf: waiting") == count
    assert all(line.endswith("turns these lines off)") for line in whole)
    assert ("must be a number of seconds" in done.stderr) == (setting == "soon")


@pytest.mark.parametrize(
    "importing", ["import echobuf", "from echobuf.torch import EchoLoader"]
)
def test_a_bad_variable_is_a_warning_of_the_line_that_imports(importing, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"import sys\n\n{importing}\n")
    done = subprocess.run(
        [sys.executable, str(program)],
        env={"ECHOBUF_PROGRESS": "soon"},
        capture_output=True,
        text=True,
        check=True,
    )
    (warned,) = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert warned.startswith(f"{program}:3: UserWarning: ECHOBUF_PROGRESS is 'soon'")
