"""A file may not be so large (`ulimit -f`): a clear error, and usable again.

Memory that processes share is a file to the system.
"""

from pathlib import Path

import pytest

from programs import run

SETUP = """
import contextlib
import resource
import tempfile
import numpy as np
import pytest
import echobuf
import echobuf.serve
from worker_data import Numbers

@contextlib.contextmanager
def limited(most):
    '''No file may be larger.'''
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

def said_until_enough(attempt):
    '''Return what is said at limits of 1, 2, 4, ... KiB, up to one that is enough.'''
    said = []
    for most in (1024 << i for i in range(40)):
        try:
            with limited(most):
                attempt()
            return said
        except echobuf.CapacityError as error:
            assert f"{most:,} bytes (`ulimit -f`" in str(error), error
            assert "Raise the limit" in str(error), error
            said.append(str(error))

data = [np.float32(i) for i in range(24)]
"""


def check(code: str) -> None:
    tests = Path(__file__).parent.parent
    paths = [str(tests / name) for name in ("faults", "workers", "")]
    assert run(f"import sys; sys.path[:0] = {paths!r}\n" + SETUP + code) == ""


@pytest.mark.parametrize("in_order", [True, False])
def test_loaders_with_workers(in_order):
    check(f"""
if __name__ == "__main__":
    kwargs = dict(batch_size=4, window=8, factor=1, num_workers=1)
    loader = echobuf.EchoLoader(Numbers(24), **kwargs, in_order={in_order})
    said = said_until_enough(lambda: iter(loader))
    assert len(said) > 3 and all("a loader with workers needs" in s for s in said)
    assert len(list(loader)) == 6
""")


@pytest.mark.parametrize("more", ["", ", spill=tempfile.gettempdir()"])
def test_servers(more):
    check(f"""
attempt = lambda: echobuf.serve.Server(data, name="few", window=8{more}).close()
said = said_until_enough(attempt)
assert said and all("a server needs" in each for each in said)
attempt()
""")


def test_the_workers_of_a_server():
    """They start when the first job has attached."""
    check("""
if __name__ == "__main__":
    server = echobuf.serve.Server(Numbers(24), name="few", window=8, num_workers=1)
    with limited(1024):
        job = echobuf.EchoLoader(echobuf.serve.attach("few"), batch_size=4, window=8)
        for wait in (lambda: list(job), server.wait):
            with pytest.raises(echobuf.EchobufError) as found:
                wait()
            assert "the upstream of a server needs" in str(found.value)
            assert "1,024 bytes (`ulimit -f`" in str(found.value)
    assert found.type is echobuf.CapacityError
    server.close()
""")
