"""Too few descriptors or threads: a clear error, nothing leaked, usable again."""

from pathlib import Path

import pytest

from programs import run

SETUP = """
import gc
import threading
import numpy as np
import pytest
import echobuf
from descriptors import count, few, no_native_threads, no_threads, until_enough
"""


def check(code: str) -> None:
    tests = Path(__file__).parent.parent
    paths = [str(tests / name) for name in ("faults", "cache", "workers", "serve", "")]
    setup = f"import sys; sys.path[:0] = {paths!r}\n" + SETUP
    assert run(setup + code) == ""


def test_caches_in_memory_and_on_disk():
    check("""
import tempfile
from pathlib import Path
from cache_data import check_all, make

check_all(make())
assert until_enough(make) >= 2
folder = Path(tempfile.mkdtemp())
numbers = iter(range(1000))
attempt = lambda: make(folder / str(next(numbers)))
assert until_enough(attempt) >= 4
check_all(attempt())
used = lambda: make(folder / "0")
until_enough(used)
check_all(used())
""")


def test_a_loader_that_cannot_start_its_thread():
    check("""
data = [np.float32(i) for i in range(40)]
for stateful in (False, True):
    loader = echobuf.EchoLoader(data, batch_size=4, window=8, factor=2)
    before, threads = count(), threading.active_count()
    for _ in range(2):
        with no_threads(), pytest.raises(echobuf.CapacityError, match="`ulimit -u`"):
            iter(loader)
        assert (count(), threading.active_count()) == (before, threads)
    assert len(list(loader)) == 20
""")


def test_a_next_epoch_needs_no_other_thread():
    check("""
data = [np.float32(i) for i in range(8)]
for overlap in (False, True):
    loader = echobuf.EchoLoader(
        data, batch_size=4, window=8, factor=2, overlap_epochs=overlap
    )
    batches = iter(loader)
    with no_threads():
        assert sorted(np.concatenate(list(batches))) == sorted(data * 2)
        assert len(list(loader)) == len(list(loader)) == 4
""")


@pytest.mark.timeout(240)
def test_workers_that_cannot_be_started():
    check("""
from worker_data import Numbers

if __name__ == "__main__":
    make = lambda: echobuf.EchoLoader(
        Numbers(24), batch_size=4, window=8, factor=1, num_workers=1
    )
    loader = make()
    assert len(list(loader)) == 6
    del loader
    from helpers import until
    threads = threading.active_count()
    def ended():
        gc.collect()  # loaders in cycles
        until(lambda: threading.active_count() <= 1)
    ended()
    before = count()
    refused = 0
    for left in range(40):
        loader, said = make(), ""
        with few(left):
            try:
                iter(loader)
            except echobuf.CapacityError as error:
                said = str(error)
        if not said:
            break
        assert "`ulimit -n`" in said and "`num_workers`" in said, said
        if left % 8 == 7:  # it can be used all the same
            assert len(list(loader)) == 6
        del loader
        ended()
        assert count() <= before, (left, count() - before)
        refused += 1
    assert refused > 5
    del loader
    ended()
    before = count()
    kept = make()
    for skip in range(2):
        refused = pytest.raises(echobuf.CapacityError, match="`ulimit -u`")
        with no_threads(skip), refused:
            iter(kept)
        del refused  # it has the error, and that the loader
    assert len(list(kept)) == 6
    del kept
    ended()
    assert count() == before
""")


def test_caches_of_ranks():
    pytest.importorskip("torch")
    check("""
from cache_data import Numbered
from echobuf.cache.distributed.server import CacheServer
from echobuf.cache.distributed.peers import PeerClient
from echobuf.cache.memory import MemoryStore

store = MemoryStore(4, 10**5)
attempt = lambda: CacheServer(
    "127.0.0.1", token=bytes(32), store=store, length=4, max_bytes=10**5
).close()
attempt()
until_enough(attempt)
before, threads = count(), threading.active_count()
with no_threads(), pytest.raises(echobuf.CapacityError, match="`ulimit -u`"):
    attempt()
assert (count(), threading.active_count()) == (before, threads)

server = CacheServer(
    "127.0.0.1", token=bytes(32), store=store, length=4, max_bytes=10**5
)
lost = []
peers = PeerClient([("", 0), ("127.0.0.1", server.port)], bytes(32), 30.0)
with few(0), pytest.raises(echobuf.CapacityError, match="`ulimit -n`"):
    peers.fetch({1: [0]}, lambda rank, error: lost.append(rank))
with few(0), pytest.raises(echobuf.CapacityError, match="`ulimit -n`"):
    peers.put(1, [])
assert not lost
answers = peers.fetch({1: [0]}, lambda rank, error: lost.append(rank))
assert answers[1][0] == [b""] and not lost
peers.close()
server.close()
""")


def test_servers():
    check("""
import echobuf.serve

data = [np.float32(i) for i in range(40)]
def attempt():
    echobuf.serve.Server(data, name="few", window=8).close()
attempt()
until_enough(attempt)
before = count()
for skip in range(2):
    with no_threads(skip), pytest.raises(echobuf.CapacityError, match="`ulimit -u`"):
        attempt()
    assert count() == before
attempt()
""")


NATIVE = """
data = [np.float32(i) for i in range(40)]
kwargs = {"batch_size": 4, "window": 8, "factor": 2}
def refused(name, attempt):
    said = fr"{name} needs a thread .* `ulimit -u`"
    with no_native_threads(), pytest.raises(echobuf.CapacityError, match=said):
        attempt()
"""


def test_a_native_thread_that_assembles_ahead():
    check(
        NATIVE
        + """
def attempt():
    with echobuf.EchoBuffer(echobuf.Field((), np.int64), prefetch=1, **kwargs):
        pass
for _ in range(2):  # before any that starts: its stack is kept
    refused("`prefetch`", attempt)
loader = echobuf.EchoLoader(data, prefetch=2, **kwargs)
refused("`prefetch`", lambda: iter(loader))
assert len(list(loader)) == 20
attempt()
"""
    )


def test_a_native_thread_that_uploads():
    check(
        NATIVE
        + """
from echobuf.testing import simulated_cuda
def attempt(**more):
    with echobuf.EchoBuffer(echobuf.Field((), np.int64), **kwargs, **more):
        pass
with simulated_cuda() as simulation, simulation.stream():
    attempt(prefetch=1)  # its stack is kept, for the stream
    refused("a buffer on a device", lambda: attempt(device="cuda"))
    attempt(device="cuda")
"""
    )


def test_a_native_thread_that_collects_from_workers():
    check(
        NATIVE
        + """
from worker_data import Numbers

if __name__ == "__main__":
    loader = echobuf.EchoLoader(Numbers(24), **kwargs, num_workers=1)
    refused("a loader with workers", lambda: iter(loader))
    assert len(list(loader)) == 12
"""
    )


def test_the_native_threads_of_a_server():
    check(
        NATIVE
        + """
import echobuf.serve

def attempt():
    echobuf.serve.Server(data, name="few", window=8).close()
refused("a server", attempt)
before = count()
refused("a server", attempt)
assert count() == before
attempt()
"""
    )
