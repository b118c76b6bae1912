"""Mistakes with examples that differ in length are errors that name the sizes."""

import numpy as np
import pytest
from serve_texts import (
    KWARGS,
    LARGEST,
    NAME,
    PAYLOAD,
    TextJob,
    Texts,
    Tokens,
    assert_same,
    uses_of,
)

from echobuf import (
    CapacityError,
    EchoLoader,
    ItemError,
    OptionError,
    SpecError,
    UpstreamError,
    serve,
)
from echobuf.testing import simulated_cuda
from helpers import until


def server_of(upstream, **kwargs):
    return serve.Server(
        upstream, NAME, **{"window": 8, "payload_bytes": PAYLOAD, **kwargs}
    )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"payload_bytes": 3}, "`payload_bytes` is 3"),
        ({"payload_bytes": "much"}, "`payload_bytes`"),
        ({"payload_bytes": None, "ragged": "packed"}, "`ragged` is 'packed', and"),
        ({"ragged": 3}, "`ragged`"),
        ({"ragged": {"id": None, "token": "packed"}}, "another structure"),
        ({"lag": 2**24}, r"2 \* `window` \+ `lag` is 16,777,232"),
    ],
)
def test_arguments_of_a_server(kwargs, message):
    with pytest.raises(OptionError, match=message):
        server_of(Texts(9), **kwargs)
    assert serve.names() == []


def test_a_payload_that_is_larger_than_the_memory(tmp_path):
    with pytest.raises(CapacityError, match="any memory"):
        server_of(Texts(9), payload_bytes=2**62)
    with pytest.raises(CapacityError, match="this machine has"):
        server_of(Texts(9), payload_bytes=2**50)
    with pytest.raises(CapacityError, match="do not fit"):
        server_of(Texts(9), payload_bytes=2**50, spill=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_upstream_none_of_whose_leaves_varies():
    with pytest.raises(OptionError, match="no leaf varies in length"):
        server_of([np.zeros(3)] * 9)


def test_an_upstream_that_varies_without_payload_bytes():
    """The job hears of it: the server has taken the first example as it is."""
    kwargs = {"window": 8, "batch_size": 4, "factor": 2}
    with (
        server_of(Texts(60), payload_bytes=None),
        pytest.raises(UpstreamError, match="does not fit the first one"),
    ):
        TextJob(1, kwargs).end()


def test_an_example_that_is_too_large_for_the_server():
    upstream = Texts(60, lengths=lambda i: LARGEST if i == 40 else 5 + i % 2)
    with server_of(upstream) as server:
        job = TextJob(1, KWARGS)
        with pytest.raises(UpstreamError, match=f"item 40.*1,6.* bytes.*{LARGEST}"):
            job.end()
        with pytest.raises(UpstreamError, match="item 40"):
            server.wait(60)
    ids = [i for batch in job.served[0] for i in batch["id"].tolist()]
    assert max(ids, default=0) < 40


def test_an_example_that_is_too_large_for_a_job_holds_no_other_up():
    """The job gets what came before, and may go on with the next epoch."""
    upstream = Texts(100, lengths=lambda i: 90 if i == 40 else 5 + i % 2)
    small = {**KWARGS, "payload_bytes": 400}  # 200 a segment
    with server_of(upstream, jobs=2, epochs=2):
        other = TextJob(2, KWARGS)
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **small)
            for _ in range(2):
                served = []
                with pytest.raises(UpstreamError, match=r"it has 36. bytes.* 200") as e:
                    served.extend(loader)
                assert isinstance(e.value.__cause__, CapacityError)
                assert all(max(batch["id"]) < 40 for batch in served)
            del loader, e
        for epoch in other.end():
            assert uses_of(epoch, 100) == [2] * 100


def test_examples_that_do_not_fit_into_packed_rows():
    kwargs = {**KWARGS, "pack_to": 40, "batch_size": 2}
    with server_of(Tokens(60)), pytest.raises(ItemError, match="`pack_to` is 40"):
        TextJob(1, kwargs).end()

    def pairs():
        for i in range(60):
            yield {"a": np.zeros(1 + i % 5), "b": np.zeros(1 + i % 5 + i // 40)}

    with server_of(pairs()), pytest.raises(ItemError, match="are of one length"):
        TextJob(1, kwargs).end()
    with server_of(Tokens(60)), pytest.raises(OptionError, match="`overlong` is 'cut'"):
        TextJob(1, {**kwargs, "overlong": "cut"}).end()
    with server_of(Texts(60)), pytest.raises(OptionError, match="`pack_to`"):
        TextJob(1, kwargs).end()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"payload_bytes": None}, "`payload_bytes` is None; give.* at most 1,600"),
        ({"payload_bytes": PAYLOAD + 1}, "may take 1,601 bytes.*is for 1,600 at most"),
        ({"window": 9, "batch_size": 3}, "`window` is 9"),
        (
            {"ragged": {"id": None, "tokens": "packed", "points": None}},
            r"`ragged` says otherwise.*`example\['points'\]` is ragged",
        ),
        (
            {"ragged": {"id": None, "tokens": "packed", "point": None}},
            "another structure",
        ),
        ({"max_bytes": 100}, "`max_bytes`"),
    ],
)
def test_arguments_of_a_job(kwargs, message):
    """None of them harms another job."""
    with server_of(Texts(60), jobs=2, epochs=1):
        other = TextJob(1, KWARGS)
        with pytest.raises((OptionError, CapacityError), match=message):
            TextJob(1, {**KWARGS, **kwargs}).end()
        assert uses_of(other.end()[0], 60) == [2] * 60


def test_ragged_arguments_with_a_server_of_one_size():
    sized = Texts(60, lengths=lambda _: 5)
    upstream = [sized[0]] * 60
    with (
        serve.Server(upstream, NAME, window=8),
        pytest.raises(OptionError, match="no leaf varies"),
    ):
        TextJob(1, KWARGS).end()
    named = {"id": None, "tokens": "packed", "points": None}
    with (
        serve.Server(upstream, NAME, window=8),
        pytest.raises(OptionError, match="is of a fixed shape"),
    ):
        TextJob(1, {**KWARGS, "ragged": named}).end()


def test_a_device_is_not_there_yet():
    with simulated_cuda(), server_of(Texts(60)), serve.attach(NAME) as attached:
        loader = EchoLoader(attached, device="cuda", **KWARGS)
        with pytest.raises(OptionError, match="from a server, on `device` 'cuda'"):
            next(iter(loader))


def test_another_spec_after_a_restart():
    server = server_of(Texts(100), jobs=2)
    job = TextJob(1, KWARGS, reconnect=20.0)
    until(lambda: serve.status(NAME).jobs)
    server.close(restarting=True)
    for upstream, kwargs in (
        (Tokens(100), {}),
        (Texts(100), {"payload_bytes": None}),
    ):
        with pytest.raises(SpecError, match="End those jobs first"):
            server_of(upstream, **kwargs)
    with server_of(Texts(100), jobs=1, epochs=1):
        alone = TextJob(1, KWARGS, Texts(100))
        assert assert_same(job.end(), alone.end()) > 10
