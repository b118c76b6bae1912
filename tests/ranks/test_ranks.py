"""Ranks that train together over gloo agree on how long an epoch is."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import echobuf
import echobuf.torch

PROGRAMS = Path(__file__).with_name("rank_programs.py")
LIMIT_S = 120


def run(size, name, **arguments):
    """What each rank has said: a list of dicts each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    programs = []
    for rank in range(size):
        variables = {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        programs.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAMS), name, json.dumps(arguments)],
                env=os.environ | variables,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    said = []
    for program in programs:
        out, errors = program.communicate(timeout=LIMIT_S)
        assert program.returncode in (0, -9), errors
        said.append([json.loads(line) for line in out.splitlines()])
    return said


def alone(length, factor):
    """Batches of a loader that knows of no ranks."""
    examples = [{"id": number} for number in range(length)]
    return len(echobuf.EchoLoader(examples, batch_size=4, window=16, factor=factor))


@pytest.mark.parametrize(("size", "factor"), [(2, 2.5), (4, 2)])
def test_drop_ends_with_the_shortest(size, factor):
    lengths = [100, 83, 61, 97][:size]
    for said in zip(
        *run(size, "epochs", uneven="drop", factor=factor, lengths=lengths), strict=True
    ):
        counts = [len(one["ids"]) for one in said]
        assert len(set(counts)) == 1
        shortest = min(range(size), key=lambda rank: lengths[rank])
        assert counts[0] == alone(lengths[shortest], factor)
        for rank, one in enumerate(said):
            uses = Counter(i for ids in one["ids"] for i in ids)
            assert max(uses.values()) <= -(-factor // 1)
            if rank == shortest:
                assert len(uses) == lengths[rank]


@pytest.mark.parametrize("size", [2, 4])
def test_pad_ends_with_the_longest(size):
    lengths = [100, 83, 21, 97][:size]
    for said in zip(
        *run(size, "epochs", uneven="pad", factor=2, lengths=lengths), strict=True
    ):
        assert {len(one["ids"]) for one in said} == {50}
        for rank, one in enumerate(said):
            own = -(-lengths[rank] * 2 // 4)
            uses = Counter(i for ids in one["ids"][:own] for i in ids)
            assert uses == dict.fromkeys(range(lengths[rank]), 2)
            served = {tuple(ids) for ids in one["ids"][:own]}
            assert {tuple(ids) for ids in one["ids"][own:]} <= served


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_auto_with_upstreams_of_different_speed(uneven):
    said = run(
        2, "epochs", uneven=uneven, factor="auto", lengths=[60, 60],
        slow=[0.0, 0.005], count=1,
    )  # fmt: skip
    counts = [len(one[0]["ids"]) for one in said]
    assert counts[0] == counts[1] > 0
    if uneven == "pad":
        for (one,) in said:
            assert {i for ids in one["ids"] for i in ids} == set(range(60))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("upstream", "rank 1 failed: upstream failed: OSError('the disk is gone')"),
        ("killed", "rank 1 no longer answers"),
        ("left", "rank 1 has left its loop in epoch 0"),
    ],
)
def test_the_others_hear_who_has_failed(where, text):
    said = run(3, "fails", where=where, lengths=[200, 200, 200])
    for rank in (0, 2):
        (one,) = said[rank]
        assert one["error"] == "UpstreamError"
        assert text in one["text"]
        assert one["took"] < 10
    if where == "upstream":
        assert "the disk is gone" in said[1][0]["text"]


def test_different_arguments_are_said_before_the_first_batch():
    for (one,) in run(3, "differs"):
        assert one["error"] == "OptionError"
        assert one["text"].startswith(
            "`window` differs between ranks (rank 0: 16, rank 1: 16, rank 2: 17)"
        )


def test_an_epoch_that_all_leave_is_followed_by_another():
    for (one,) in run(2, "leaves", lengths=[60, 41]):
        assert len(one["ids"]) == 30


def test_resumed_on_as_many_ranks(tmp_path):
    path = str(tmp_path / "state")
    whole = run(2, "resumes", path=path, action="save", steps=25)
    for rank, (warned, rest) in enumerate(
        run(2, "resumes", path=path, action="load", steps=0)
    ):
        assert warned["warned"] == []
        assert rest["ids"] == whole[rank][0]["ids"][25:]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1)])
def test_resumed_on_another_number_of_ranks(tmp_path, before, after):
    path = str(tmp_path / "state")
    steps = 48 // before
    whole = run(before, "resumes", path=path, action="save", steps=steps)
    served = Counter(i for said in whole for ids in said[0]["ids"][:steps] for i in ids)
    # Any one of the states is enough.
    for rank in range(1, before):
        os.remove(f"{path}.{rank}")
    uses = Counter()
    for warned, rest in run(after, "resumes", path=path, action="load", steps=0):
        (message,) = warned["warned"]
        assert f"taken on {before} ranks, and these are {after}" in message
        assert "are served again" in message
        uses.update(i for ids in rest["ids"] for i in ids)
    for number in range(240):
        assert served[number] + uses[number] >= 2, "nothing is lost"
    assert sum(uses.values()) < 480, "what was done is not begun anew"


def test_without_a_process_group():
    with pytest.raises(echobuf.OptionError, match="there is no process group"):
        echobuf.torch.EchoLoader(
            [torch.zeros(1)], batch_size=1, window=1, uneven="drop"
        )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"uneven": "cut"}, "`uneven` is 'cut'; it must be 'drop', 'pad' or None"),
        ({"group": object()}, "`group` is given, but `uneven` is not"),
        ({"uneven": "pad", "ahead": 0}, "`ahead` is 0"),
    ],
)
def test_arguments_out_of_range(more, text):
    with pytest.raises(echobuf.OptionError, match=text):
        echobuf.torch.EchoLoader([torch.zeros(1)], batch_size=1, window=1, **more)
