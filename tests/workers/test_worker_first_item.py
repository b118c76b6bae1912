"""The first example is made by a worker, which then makes others."""

import os
import subprocess
import sys

import pytest

import echobuf
from helpers import WAIT_S
from worker_data import (
    Lengths,
    Numbers,
    Opened,
    Random,
    Troubled,
    crash,
    ids,
    leave,
    load,
    workers_alive,
)

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (Opened, {}),
        (Opened, {"in_order": False}),
        (Lengths, {"payload_bytes": 4000, "ragged": "packed"}),
    ],
)
def test_no_example_is_made_in_the_process_of_the_loader(
    kind, kwargs, method, tmp_path
):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(60)))
    loader = load(
        kind(60, path, os.getpid()), 2, multiprocessing_context=method, **kwargs
    )
    for _ in range(2):
        served = [number for batch in loader for number in batch["id"].tolist()]
        assert sorted(served) == sorted([*range(60)] * 2)
    assert len(workers_alive()) == 2


def test_random_numbers_are_those_of_a_worker_that_has_not_made_it():
    first = load(Random(40), 1)
    numbers = [*map(repr, first)]
    assert numbers == [*map(repr, load(Random(40), 1))]


@pytest.mark.parametrize("trouble", [leave, crash])
def test_a_worker_that_dies_in_the_first_example_is_replaced(trouble, tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(40, trouble, 0, flag), 2, max_restarts=1)
    with pytest.raises(echobuf.UpstreamError, match="`max_restarts` allows 1"):
        list(loader)
    flag.unlink()
    assert ids(loader) == ids(load(Numbers(40), 0))


def test_an_error_in_the_first_example_can_be_tried_again(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(40, fail, 0, flag), 2)
    for _ in range(2):
        with pytest.raises(echobuf.UpstreamError, match="no such luck"):
            list(loader)
    assert len(workers_alive()) == 2
    flag.unlink()
    assert ids(loader) == ids(load(Numbers(40), 0))


def fail():
    raise OSError("no such luck")


def test_a_loader_that_never_drew_ends_its_worker(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    loader = load(Troubled(40, fail, 0, flag), 2)
    with pytest.raises(echobuf.UpstreamError):
        list(loader)
    loader.close()
    assert not workers_alive()


PROGRAM = """
import pathlib, sys
import echobuf
from test_worker_first_item import fail
from worker_data import Troubled, load

if __name__ == "__main__":
    loader = load(Troubled(40, fail, 0, pathlib.Path(sys.argv[1])), 2)
    try:
        list(loader)
    except echobuf.UpstreamError as error:
        print(error)
    del loader
"""


def test_workers_that_are_given_up_say_nothing(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(flag)],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "no such luck" in done.stdout
    assert "Traceback" not in done.stderr
