"""A generator, and a class with one."""

import numpy as np
import pytest

import echobuf
from upstream_checks import N, check_all, check_unknown_length, run

KWARGS = {"batch_size": 32, "window": 64, "factor": 2}


@pytest.fixture(name="path")
def _path(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{i},{i}.0,{i}\n" for i in range(N)))
    return path


def test_the_page(path):
    names = {"path": path, "count": N, "echobuf": echobuf, "np": np}
    check_all(lambda: run("A generator", names)["loader"], 1)


def test_a_generator_gives_one_epoch():
    loader = echobuf.EchoLoader((i for i in range(N)), length=N, **KWARGS)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert sorted(np.concatenate(batches)) == sorted(2 * list(range(N)))
    with pytest.raises(echobuf.UpstreamError, match="class with a generator"):
        iter(loader)
    check_unknown_length(i for i in range(N))
