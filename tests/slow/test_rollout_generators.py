"""Rollouts that a generator had committed are used as often as the factor says."""

import functools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, Field
from rollout_plays import Dying, Numbered

EXAMPLE = Path(__file__).parents[2] / "examples" / "rollouts"
SPEC = {"number": Field((), np.int64), "payload": Field(20_000, np.int64)}
KILLS = 6


@pytest.fixture
def generators(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import generators

    yield generators
    del sys.modules["generators"]


@pytest.mark.parametrize("factor", [1, 3])
def test_killed_generators_lose_nothing_that_was_committed(
    generators, tmp_path, factor
):
    log, ending = tmp_path / "log", tmp_path / "ending"
    killed = set()

    def kill_at_random(generator):
        chance = random.Random(factor)
        while len(killed) < KILLS:
            time.sleep(0.3 * chance.random())
            pid = generator.process.pid if generator.process else None
            if pid is None or pid in killed:
                continue
            note = chance.choice(["", f"begun {pid}", f"stuck {pid}"])
            if (note if killed else f"stuck {pid}") in log_of(log):
                generator.process.kill()
                killed.add(pid)
        ending.touch()

    used, rows = Counter(), 0
    make_play = functools.partial(Numbered, log, ending)
    with EchoBuffer(SPEC, batch_size=8, window=48, factor=factor) as buffer:
        generator = generators.Generator(
            buffer, SPEC, make_play, slots=4, max_restarts=10**6
        )
        generator.start()
        killer = threading.Thread(target=kill_at_random, args=(generator,))
        killer.start()
        for batch in buffer:
            assert (batch["payload"] == batch["number"][:, None]).all(), "torn"
            used.update(batch["number"].tolist())
            rows += len(batch["number"])
        killer.join()
        generator.stop()
        assert buffer.stats().fresh * factor == rows
    assert len(killed) == KILLS
    notes = [line.split() for line in log_of(log).splitlines()]
    begun = {int(number) for what, number in notes if what == "begun"}
    committed = {int(number) for what, number in notes if what == "committed"}
    assert set(used.values()) == {factor}
    assert committed <= set(used) <= begun
    assert {number // 1_000_000 for number in used} & killed
    # The first one was killed in the middle of a rollout, which is dropped.
    assert begun > set(used)


def log_of(path):
    return path.read_text() if path.exists() else ""


def test_generators_that_keep_dying_end_the_training(generators):
    with EchoBuffer(SPEC, batch_size=8, window=48) as buffer:
        generator = generators.Generator(buffer, SPEC, Dying, max_restarts=1)
        generator.start()
        with pytest.raises(echobuf.UpstreamError) as caught:
            buffer.next_batch(timeout=60)
        assert "exit code 11" in str(caught.value.__cause__)
        generator.stop()


def test_a_policy_is_read_whole(generators):
    policy = generators.Policy(10_000)
    policy.publish(np.zeros(10_000, np.float32), 0)
    ended = threading.Event()

    def publish():
        for version in range(1, 2_000):
            policy.publish(np.full(10_000, version, np.float32), version)
        ended.set()

    writer = threading.Thread(target=publish)
    writer.start()
    last = 0
    while not ended.is_set():
        weights, version = policy.read()
        assert version >= last
        assert (weights == version).all()
        last = version
    writer.join()
    assert policy.read()[1] == 1_999


def test_the_example_learns():
    pytest.importorskip("torch")
    arguments = ["--episodes", "2000", "--slow-ms", "0"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "train.py"), *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    # By chance one ball in seven is caught.
    assert float(last.split("reward of new ones ")[1].split(",")[0]) > 0.25
