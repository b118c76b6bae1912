"""Every job gets the batches of an upstream of its own; upstream runs once."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_data import (
    NAME,
    Job,
    Numbers,
    all_of,
    close_at_gate,
    counts_of,
    example,
    ids_of,
)
from serve_texts import PAYLOAD, TextJob, Texts, uses_of

from echobuf import ClosedError, EchoLoader, serve
from echobuf.testing import simulated_cuda
from helpers import until
from leaked_threads import no_feeder
from same_batches import count_same
from schedule_reference import draw_infos

jobs = st.lists(
    st.fixed_dictionaries(
        {
            "window": st.integers(6, 16),
            "batch_size": st.integers(1, 4),
            "factor": st.sampled_from([1, 2, 2.5, 3, 4]),
            "seed": st.integers(0, 2**64 - 1),
            "prefetch": st.integers(0, 2),
            "overlap_epochs": st.booleans(),
            "drop_last": st.booleans(),
        }
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=25)
@given(jobs, st.integers(1, 70), st.integers(1, 3), st.integers(0, 20))
def test_batches_are_those_of_an_upstream_of_its_own(jobs, n, epochs, lag):
    upstream = Numbers(n)
    with serve.Server(
        upstream, NAME, window=16, lag=lag, jobs=len(jobs), epochs=epochs
    ) as server:
        running = [Job(epochs, kwargs) for kwargs in jobs]
        served = [job.end() for job in running]
        assert server.wait(60)
    for kwargs, batches in zip(jobs, served, strict=True):
        assert batches == Job(epochs, kwargs, Numbers(n)).end()
    assert upstream.made == epochs * n
    assert upstream.epochs == list(range(epochs))


class JobWithInfos(Job):
    """A job that keeps the infos of its batches."""

    def kept(self, batch):
        told, info = batch
        assert info.index.tolist() == ids_of(told)
        assert not info.version.any()
        return list(zip(info.index.tolist(), info.echo.tolist(), strict=True))


def test_each_job_is_told_its_own_uses_of_examples():
    with serve.Server(Numbers(50), NAME, window=16, jobs=2, epochs=2):
        kwargs = {"window": 16, "batch_size": 4, "with_info": True}
        running = [JobWithInfos(2, {**kwargs, "factor": each}) for each in (2, "auto")]
        for job in running:
            for epoch in job.end():
                infos = all_of(epoch)
                assert infos == draw_infos(index for index, _ in infos)
                assert {index for index, _ in infos} == set(range(50))


KINDS = pytest.mark.parametrize(
    ("kind", "upstream_of", "uses", "more"),
    [
        (Job, Numbers, counts_of, {}),
        (TextJob, Texts, uses_of, {"payload_bytes": 4 * PAYLOAD}),
    ],
    ids=["fixed", "ragged"],
)


@KINDS
def test_auto_uses_each_example_at_least_once(kind, upstream_of, uses, more):
    kwargs = {"window": 16, "batch_size": 4, "factor": "auto", "max_factor": 3, **more}
    with serve.Server(
        upstream_of(200), kind.server, window=16, jobs=2, epochs=2, **more
    ):
        running = [kind(2, {**kwargs, "seed": seed}) for seed in range(2)]
        for job in running:
            for epoch in job.end():
                assert {1, 2, 3} >= set(uses(epoch, 200))


def test_batched_upstreams_and_workers_serve_the_same():
    class Batches(Numbers):
        def __iter__(self):
            examples = list(super().__iter__())
            for i in range(0, self.n, 7):
                part = examples[i : i + 7]
                yield {
                    "id": np.stack([each["id"] for each in part]),
                    "data": tuple(
                        np.stack([each["data"][j] for each in part]) for j in (0, 1)
                    ),
                }

    kwargs = {"window": 8, "batch_size": 3, "factor": 2}
    wanted = Job(2, kwargs, Numbers(40)).end()
    for upstream, options in (
        (Batches(40), {"batched": True}),
        ([example(i) for i in range(40)], {"num_workers": 2}),
        ([example(i) for i in range(40)], {"sampler": range(40)}),
    ):
        with serve.Server(upstream, NAME, window=8, epochs=2, **options):
            assert Job(2, kwargs).end() == wanted


@pytest.mark.parametrize("factor", [1, 2.5])
def test_on_a_device(factor):
    kwargs = {"window": 8, "batch_size": 3, "factor": factor, "seed": 5}
    wanted = Job(3, kwargs, Numbers(50)).end()
    with (
        simulated_cuda() as simulation,
        serve.Server(Numbers(50), NAME, window=8, jobs=2, epochs=3),
    ):
        on_host = Job(3, kwargs)
        stream, others = simulation.stream(), threading.enumerate()
        with stream, serve.attach(NAME) as attached:
            loader = EchoLoader(attached, device="cuda", **kwargs)
            served = []
            for _ in range(3):
                batches = []
                for batch in loader:
                    batches.append(ids_of(batch))
                served.append(batches)
            del loader, batch
            no_feeder(others)
        assert served == on_host.end() == wanted


def test_an_epoch_that_is_left_is_passed_over():
    with serve.Server(Numbers(100), NAME, window=8, epochs=4) as server:
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, window=8, batch_size=3, factor=2)
            for epoch in range(4):
                served = []
                for batch in loader:
                    served.append(ids_of(batch))
                    if epoch % 2 == 0 and len(served) == 5 + epoch:
                        break
                if epoch % 2:
                    assert counts_of(served, 100) == [2] * 100
                else:
                    assert max(all_of(served)) < 60
        assert server.wait(60)


def test_a_late_job_begins_with_the_next_epoch():
    late_is_there = threading.Event()
    kwargs = {"window": 8, "batch_size": 3, "factor": 2}
    upstream = Numbers(60, lambda i: i != 30 or late_is_there.wait(60))
    with serve.Server(upstream, NAME, window=8, epochs=3):
        early = Job(3, kwargs)
        until(lambda: upstream.made == 30)
        late = Job(2, kwargs)
        until(lambda: len(serve.status(NAME).jobs) == 2)
        jobs = sorted(serve.status(NAME).jobs, key=lambda job: job.waiting)
        assert [job.waiting for job in jobs] == [False, True]
        assert jobs[1].lag == 0  # nothing that was published is for it
        late_is_there.set()
        for epoch in early.end() + late.end():
            assert counts_of(epoch, 60) == [2] * 60
    assert upstream.made == 180


@KINDS
def test_another_server_goes_on_in_the_middle_of_an_epoch(
    kind, upstream_of, uses, more
):
    gone = threading.Event()
    first = upstream_of(80, lambda i: i < 50 or gone.wait(60))
    options = {"window": 8, "jobs": 2, "epochs": 2, **more}
    server = serve.Server(first, kind.server, **options)
    kwargs = {"window": 8, "batch_size": 3, "factor": 2, **more}
    jobs = [kind(2, {**kwargs, "seed": seed}) for seed in range(2)]
    until(lambda: first.made == 50)
    close_at_gate(server, gone, restarting=True)
    with serve.Server(upstream_of(80), kind.server, **options) as second:
        for seed, job in enumerate(jobs):
            alone = kind(2, {**kwargs, "seed": seed}, upstream_of(80)).end()
            for epoch, other in zip(job.end(), alone, strict=True):
                assert uses(epoch, 80) == [2] * 80
                if kind is TextJob:
                    count_same(epoch, other)
                else:
                    assert epoch == other
        assert second.wait(60)


def test_length_is_the_servers():
    with (
        serve.Server(Numbers(10), NAME, window=4, epochs=1),
        serve.attach(NAME) as attached,
    ):
        assert len(attached) == 10
        loader = EchoLoader(attached, window=4, batch_size=3, factor=2)
        assert len(loader) == 7
        assert len(list(loader)) == 7


def test_torch():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    data = torch.utils.data.TensorDataset(
        torch.arange(30), torch.arange(30).to(torch.bfloat16)
    )
    upstream = torch.utils.data.DataLoader(data, batch_size=4)
    with (
        serve.Server(upstream, NAME, window=8, epochs=1),
        serve.attach(NAME) as attached,
    ):
        loader = echobuf.torch.EchoLoader(attached, window=8, batch_size=5, factor=2)
        ids = []
        for numbers, halves in loader:
            assert halves.dtype is torch.bfloat16
            assert (numbers == halves).all()
            ids.append(numbers.tolist())
    assert counts_of(ids, 30) == [2] * 30


@pytest.mark.parametrize("begun", [False, True])
def test_a_loader_that_is_closed_has_left_the_server(begun):
    with serve.Server(Numbers(100), NAME, window=8, epochs=2):
        loader = EchoLoader(serve.attach(NAME), batch_size=2, window=6, factor=1)
        if begun:
            epoch = iter(loader)
            next(epoch)
        loader.close()
        until(lambda: not serve.status(NAME).jobs)
        with pytest.raises(ClosedError, match="this loader was closed"):
            next(epoch) if begun else iter(loader)
    no_feeder()
