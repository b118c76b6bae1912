"""Servers of examples that differ in length: jobs get what they would read alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_kills import main as kill
from serve_texts import (
    KWARGS,
    LARGEST,
    NAME,
    PAYLOAD,
    Files,
    TextJob,
    Texts,
    Tokens,
    assert_same,
    uses_of,
)

import echobuf
from echobuf import EchoLoader, serve
from helpers import until

forms = st.sampled_from(
    [{}, {"pad_to": 8}, {"ragged": "padded", "pad_value": 7}, {"ragged": "padded"}]
)
jobs = st.lists(
    st.builds(
        lambda kwargs, form: {**kwargs, **form},
        st.fixed_dictionaries(
            {
                "window": st.integers(6, 16),
                "batch_size": st.integers(1, 4),
                "factor": st.sampled_from([1, 2, 2.5, 3, 4]),
                "payload_bytes": st.integers(PAYLOAD, 2 * PAYLOAD),
                "seed": st.integers(0, 2**64 - 1),
                "prefetch": st.integers(0, 2),
                "overlap_epochs": st.booleans(),
                "drop_last": st.booleans(),
            }
        ),
        forms,
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=20)
@given(jobs, st.integers(5, 70), st.integers(1, 3), st.integers(0, 20))
def test_batches_are_those_of_an_upstream_of_its_own(jobs, n, epochs, lag):
    upstream = Texts(n)
    with serve.Server(
        upstream,
        NAME,
        window=16,
        lag=lag,
        jobs=len(jobs),
        epochs=epochs,
        payload_bytes=2 * PAYLOAD,
    ) as server:
        running = [TextJob(epochs, kwargs) for kwargs in jobs]
        served = [job.end() for job in running]
        assert server.wait(60)
    for kwargs, batches in zip(jobs, served, strict=True):
        wanted = TextJob(epochs, kwargs, Texts(n)).end()
        assert assert_same(batches, wanted) > 0 or kwargs["drop_last"]
    assert upstream.made == epochs * n


@pytest.mark.parametrize(
    "kwargs",
    [
        {"batch_size": None, "max_rows": 400},
        {"batch_size": None, "max_rows": 500, "ragged": "padded"},
        {"ragged": "padded", "prefetch": 2, "batch_size": 3},
    ],
)
def test_as_many_examples_as_fit(kwargs):
    kwargs = {**KWARGS, **kwargs}
    with serve.Server(Texts(90), NAME, window=8, epochs=2, payload_bytes=PAYLOAD):
        served = TextJob(2, kwargs).end()
    assert assert_same(served, TextJob(2, kwargs, Texts(90)).end()) > 10


@pytest.mark.parametrize("payload_bytes", [None, PAYLOAD])
def test_packed_rows(payload_bytes):
    kwargs = {**KWARGS, "pack_to": 100, "batch_size": 2}
    kwargs["payload_bytes"] = payload_bytes
    with serve.Server(Tokens(90), NAME, window=8, epochs=2, payload_bytes=4000):
        served = TextJob(2, kwargs).end()
    assert isinstance(served[0][0], echobuf.Packed)
    assert assert_same(served, TextJob(2, kwargs, Tokens(90)).end()) > 10


class Batches(Texts):
    """Batches of seven examples, whose ragged leaves are in one of their forms."""

    def __init__(self, n, form, **kwargs):
        super().__init__(n, **kwargs)
        self.form = form

    def __iter__(self):
        for i in range(0, self.n, 7):
            part = [self[j] for j in range(i, min(i + 7, self.n))]
            if self.form == "examples":
                yield part
                continue
            batch = {name: [each[name] for each in part] for name in part[0]}
            batch["id"] = np.stack(batch["id"])
            if self.form == "ragged":
                for name in ("tokens", "points"):
                    offsets = np.cumsum([0, *map(len, batch[name])])
                    values = np.concatenate(batch[name])
                    batch[name] = echobuf.Ragged(values, offsets)
            yield batch


@pytest.mark.parametrize("form", ["examples", "lists", "ragged"])
def test_batches_of_any_form(form):
    wanted = TextJob(2, KWARGS, Texts(60)).end()
    with serve.Server(
        Batches(60, form),
        NAME,
        window=8,
        epochs=2,
        batched=True,
        payload_bytes=PAYLOAD,
    ):
        assert assert_same(TextJob(2, KWARGS).end(), wanted) > 10


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"sampler": range(60)}])
def test_datasets(options):
    wanted = TextJob(2, KWARGS, Texts(60)).end()
    with serve.Server(
        Texts(60), NAME, window=8, epochs=2, payload_bytes=PAYLOAD, **options
    ):
        assert assert_same(TextJob(2, KWARGS).end(), wanted) > 10


def test_files_and_leaves_that_are_named(tmp_path):
    named = {"id": None, "tokens": "packed", "points": "packed"}
    for upstream, options in (
        (Files(60), {}),
        (Texts(60, lengths=lambda _: 5), {"ragged": named}),
        (Texts(60), {"spill": tmp_path}),
    ):
        with serve.Server(
            upstream, NAME, window=8, epochs=1, payload_bytes=PAYLOAD, **options
        ):
            served = TextJob(1, KWARGS).end()
        alone = TextJob(1, {**KWARGS, "ragged": options.get("ragged")}, upstream)
        assert assert_same(served, alone.end()) > 10


def test_a_job_may_name_the_form_of_each_leaf():
    kwargs = {**KWARGS, "ragged": {"id": None, "tokens": "padded", "points": "padded"}}
    with serve.Server(Texts(60), NAME, window=8, epochs=1, payload_bytes=PAYLOAD):
        served = TextJob(1, kwargs).end()
    assert assert_same(served, TextJob(1, kwargs, Texts(60)).end()) > 10


def test_nested_tensors():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    def upstream():
        for number in range(40):
            yield torch.full((number % 7, 2), number % 9).to(torch.bfloat16)

    with (
        serve.Server(upstream(), NAME, window=8, epochs=1, payload_bytes=PAYLOAD),
        serve.attach(NAME) as attached,
    ):
        loader = echobuf.torch.EchoLoader(attached, ragged="nested", **KWARGS)
        rows = 0
        for nested in loader:
            assert nested.layout is torch.jagged
            assert nested.dtype is torch.bfloat16
            rows += len(nested.values())
    assert rows == 2 * sum(number % 7 for number in range(40))


@pytest.mark.parametrize("form", ["examples", "lists", "ragged"])
def test_another_server_goes_on_in_the_middle_of_a_batch(form):
    options = {"window": 8, "batched": True, "payload_bytes": PAYLOAD}
    upstream = Batches(80, form, lengths=lambda i: i % 3)
    server = serve.Server(upstream, NAME, **options)
    with serve.attach(NAME, reconnect=30.0) as attached:
        job = iter(EchoLoader(attached, **KWARGS))
        served = [next(job)]
        until(lambda: serve.status(NAME).published == 24)  # all slots
        server.close(restarting=True)
        with serve.Server(upstream, NAME, **options):
            served += job
            del job
    alone = TextJob(1, KWARGS, Texts(80, lengths=lambda i: i % 3)).end()
    assert assert_same([served], alone) > 10


def test_stats_of_a_job_are_those_of_a_loader_alone_but_for_the_payload():
    kwargs = {**KWARGS, "pad_to": 8}
    alone = EchoLoader(Texts(60), **kwargs)
    with (
        serve.Server(Texts(60), NAME, window=8, epochs=1, payload_bytes=PAYLOAD),
        serve.attach(NAME) as attached,
        EchoLoader(attached, **kwargs) as loader,
    ):
        for each in (alone, loader):
            assert uses_of(list(each), 60) == [2] * 60
        stats, wanted = loader.stats(), alone.stats()
    for name in ("fresh", "served", "mean_rows", "padding_share"):
        assert getattr(stats, name) == getattr(wanted, name) > 0
    assert stats.payload_bytes == stats.payload_capacity == 0
    assert wanted.payload_capacity > PAYLOAD
    assert stats.bytes_host < wanted.bytes_host


def test_an_epoch_that_is_left_is_passed_over():
    with serve.Server(
        Texts(100), NAME, window=8, epochs=4, payload_bytes=PAYLOAD
    ) as server:
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **KWARGS)
            for epoch in range(4):
                served = []
                for batch in loader:
                    served.append(batch)
                    if epoch % 2 == 0 and len(served) == 5 + epoch:
                        break
                if epoch % 2:
                    assert uses_of(served, 100) == [2] * 100
        assert server.wait(60)


def test_a_job_whose_epochs_overlap_beside_one_that_leaves_early():
    with serve.Server(
        Texts(100), NAME, window=8, jobs=2, epochs=4, payload_bytes=PAYLOAD
    ):
        steady = TextJob(4, {**KWARGS, "overlap_epochs": True})
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **KWARGS)
            for _ in range(2):
                for batch, _ in zip(loader, range(9), strict=False):
                    assert len(batch["id"]) == 4
            del loader
        alone = TextJob(4, {**KWARGS, "overlap_epochs": True}, Texts(100))
        assert assert_same(steady.end(), alone.end()) > 100


def test_a_state_at_the_end_of_an_epoch_goes_on():
    wanted = TextJob(2, KWARGS, Texts(60)).end()
    with serve.Server(Texts(60), NAME, window=8, payload_bytes=PAYLOAD):
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **KWARGS)
            served = [list(loader)]
            state = loader.state_dict()
            del loader
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **KWARGS)
            loader.load_state_dict(state)
            served.append(list(loader))
            del loader
    assert assert_same(served, wanted) > 10


@pytest.mark.parametrize("lag", [0, 16])
def test_a_slow_job_holds_the_others_up_when_the_payload_is_full(lag):
    slots = 32 + lag
    rows = PAYLOAD * slots // 16  # as many bytes as the windows' on average
    upstream = Texts(300, lengths=lambda i: 80 - i % 2)  # 316 bytes or more
    with serve.Server(
        upstream, NAME, window=16, lag=lag, jobs=2, epochs=1, payload_bytes=PAYLOAD
    ):
        fast = TextJob(1, KWARGS)
        with serve.attach(NAME) as attached:
            slow = iter(EchoLoader(attached, **KWARGS))
            served = [next(slow)]
            until(lambda: serve.status(NAME).published >= rows // 352)
            most = (rows + 2 * (LARGEST + 48) + 32 * slots) // 316
            assert most < slots
            assert max(job.held for job in serve.status(NAME).jobs) <= most
            assert upstream.made <= most + 1  # one is in its hands
            served += slow
            del slow
        assert uses_of(served, 300) == [2] * 300
        assert uses_of(fast.end()[0], 300) == [2] * 300
    assert upstream.made == 300


def test_kills():
    assert kill(15, 3, ragged=True) > 0
