"""A damaged file of a store ends no process, and no wrong item is served."""

import os
import random
import shutil
import signal
import struct
import warnings

import pytest

import echobuf
from cache_data import in_child, make, store_of

lmdb = pytest.importorskip("lmdb")
PAGE = 4096
SMALL = [bytes([number]) * (40 + number) for number in range(200)]
LARGE = [bytes([number]) * (5000 + 40 * number) for number in range(200)]


def fill(path, source, rounds=4):
    """Write in many transactions: pages are free, and the index has two levels."""
    for at in range(rounds):
        cached = make(path, 10**8, source=source)
        for number in range(at, len(source), rounds):
            assert cached[number] == source[number]
            cached.flush()


def use(path, source):
    """Read all items twice and flush; return "refused" for a clear error."""
    try:
        cached = make(path, 10**8, source=source)
    except echobuf.OptionError:
        return "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(2):
            assert list(cached) == source
            cached.flush()
        cached.stats()
        store_of(cached).stored_mask(len(source))
    return "served"


@pytest.fixture(scope="module", params=["small", "large"])
def store(request, tmp_path_factory):
    """Return a directory that no process has open, and its source."""
    path = tmp_path_factory.mktemp("store") / "cache"
    source = SMALL if request.param == "small" else LARGE
    in_child(fill, path, source)
    return path, source


def outcome(path, source):
    """Use the store in another process; return its exit code, negative: a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            code = {"served": 0, "refused": 2}[use(path, source)]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_an_undamaged_store_is_served(store):
    assert outcome(*store) == 0


@pytest.mark.parametrize("where", ["anywhere", "index"])
def test_changed_bytes_end_no_process(store, tmp_path, where):
    path, source = store
    whole = (path / "data.mdb").read_bytes()
    index = [
        at
        for at in range(0, len(whole), PAGE)
        if struct.unpack_from("<H", whole, at + 10)[0] in (1, 2, 8)
    ]
    chance = random.Random(where)
    seen = set()
    for turn in range(50):
        directory = tmp_path / f"{turn}"
        shutil.copytree(path, directory)
        with (directory / "data.mdb").open("r+b") as file:
            for _ in range(chance.choice([1, 1, 4, 30])):
                at = chance.randrange(len(whole))
                if where == "index":
                    at = chance.choice(index) + chance.choice(
                        [chance.randrange(PAGE), chance.randrange(160)]
                    )
                file.seek(at)
                file.write(bytes([whole[at] ^ (1 << chance.randrange(8))]))
        seen.add(code := outcome(directory, source))
        assert code in (0, 2), turn
        shutil.rmtree(directory)
    assert 0 in seen
    assert 2 in seen or where == "anywhere"
