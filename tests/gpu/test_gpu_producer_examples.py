"""The examples whose producers are on the device, unchanged, on a real one."""

import runpy
from pathlib import Path

import pytest

import echobuf

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def train(cuda, monkeypatch):
    """Return the training of an example; what it puts must lie on the device."""

    class OnDevice(echobuf.EchoBuffer):
        def put_batch(self, batch):
            assert all(leaf.is_cuda for leaf in batch.values())
            super().put_batch(batch)

    def load(name):
        train = runpy.run_path(str(EXAMPLES / name / "train.py"))["train"]
        monkeypatch.setitem(train.__globals__, "EchoBuffer", OnDevice)
        return train

    return load


def test_a_learner_swings_pendulums_up(train):
    run = train("replay_ratio")(8, 61_440, device="cuda")
    assert run.returns[0] < -900
    assert run.returns[-1] > -600


def test_a_forecaster_learns_from_its_forecasts(train):
    alone, own = (train("own_forecasts")(k, 1000, device="cuda") for k in (1, 8))
    assert own.errors[-1] < alone.errors[-1] / 2
