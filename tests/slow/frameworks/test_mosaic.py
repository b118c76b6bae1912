"""MosaicML streaming, in an environment of its own: `-m mosaic`.

It needs an older NumPy than the other tests; the last step of .ci/run installs both.
"""

import numpy as np
import pytest

from torchvision_here import torchvision_or_skip
from upstream_checks import N, check_break, check_epochs, check_resume, run

# torch warns of the read-only arrays that streaming reads from its shards.
READ_ONLY = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
pytestmark = [pytest.mark.mosaic, READ_ONLY]


@pytest.fixture(name="streaming", scope="module")
def _streaming():
    torchvision_or_skip()  # streaming imports it
    return pytest.importorskip("streaming")


@pytest.fixture(name="remote", scope="module")
def _remote(streaming, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("remote"))
    columns = {"x": "ndarray:float32:3", "id": "int"}
    with streaming.MDSWriter(out=folder, columns=columns, size_limit=2000) as writer:
        for number in range(N):
            writer.write({"x": np.full(3, number, np.float32), "id": number})
    return folder


@pytest.fixture(name="make")
def _make(streaming, remote, tmp_path):
    """Makes loaders of the page; `make.last` is the dataset of the last one."""

    def make():
        make.count += 1
        local = str(tmp_path / str(make.count))
        names = run("MosaicML streaming", {"remote": remote, "local": local})
        make.last = names["dataset"]
        return names["loader"]

    make.count = 0
    return make


def test_the_page(make):
    check_epochs(make, "id")
    check_break(make, "id")


def test_a_state_with_the_number_of_the_epoch(make):
    def begin(epoch):
        make.last.next_epoch = epoch

    check_resume(make, "id", begin)


@pytest.mark.parametrize("workers", [0, 2])
def test_its_data_loader(streaming, remote, tmp_path, workers):
    import echobuf.torch

    dataset = streaming.StreamingDataset(
        remote=remote, local=str(tmp_path), shuffle=True, batch_size=16
    )
    upstream = streaming.StreamingDataLoader(
        dataset, batch_size=16, num_workers=workers
    )
    loader = echobuf.torch.EchoLoader(upstream, window=64, factor=2)
    for _ in range(2):
        batches = [batch["id"] for batch in loader]
        served = [i for ids in batches for i in ids.tolist()]
        assert sorted(served) == sorted(2 * list(range(N)))
        if not workers:
            assert len(loader) == len(batches)
    if workers:
        with pytest.raises(TypeError, match="`length=`"):
            len(loader)
