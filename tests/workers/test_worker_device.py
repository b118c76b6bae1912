"""Workers write into pinned memory, from where a device's window is filled."""

import pytest

from echobuf.testing import simulated_cuda
from leaked_threads import no_feeder
from ragged_worker_data import Texts, Tokens
from ragged_worker_data import load as load_ragged
from same_batches import count_same
from test_worker_deaths import kill
from worker_data import Numbers, load, workers_alive

N = 150


@pytest.mark.parametrize("kwargs", [{}, {"factor": 1.5, "overlap_epochs": True}])
def test_batches_are_those_of_the_cpu(kwargs):
    alone = load(Numbers(N), 0, **kwargs)
    with simulated_cuda() as simulation:
        stream = simulation.stream()
        loader = load(Numbers(N), 2, device="cuda", max_restarts=100, **kwargs)
        with stream:
            for epoch in range(2):
                served = []
                for number, batch in enumerate(loader):
                    served.append(arrays(batch))
                    if number == 10:
                        kill(workers_alive()[0])
                assert served == [arrays(batch) for batch in alone], epoch
        del loader, alone, batch
        no_feeder()  # the last that has the memory is who waits for the workers
    assert not simulation.reports


def arrays(batch):
    return {name: leaf.tolist() for name, leaf in batch.items()}


@pytest.mark.parametrize("kwargs", [{}, {"pack_to": 600, "payload_bytes": None}])
def test_examples_of_any_length(kwargs):
    dataset = Tokens(N) if kwargs else Texts(N)
    with simulated_cuda():
        drawn = load_ragged(dataset, 2, device="cuda", **kwargs)
        assert count_same(drawn, load_ragged(dataset, 0, **kwargs)) > 1
        del drawn
        no_feeder()  # the last that has the memory is who waits for the workers


@pytest.mark.parametrize("dataset", [Numbers(N), Texts(N)])
def test_examples_that_enter_as_they_arrive(dataset):
    make = load if type(dataset) is Numbers else load_ragged
    with simulated_cuda() as simulation:
        loader = make(dataset, 2, device="cuda", in_order=False)
        served = [number for batch in loader for number in batch["id"].tolist()]
        assert sorted(served) == sorted([*range(N)] * 2)
        del loader
        no_feeder()  # the last that has the memory is who waits for the workers
    assert not simulation.reports
