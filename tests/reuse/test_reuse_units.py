"""Passes that leave records out: whole batches, ragged records, "auto", loaders."""

import itertools
from collections import Counter

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, EchoLoader, Field
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract


def draw_all(source, buffer, loss_of):
    """The infos of all batches; the loss of each example is reported."""
    infos = []
    for batch, info in source:
        index = info.index.tolist()
        infos += zip(index, info.echo.tolist(), info.weight.tolist(), strict=True)
        buffer.report(info, np.array([loss_of(i) for i in index], np.float32))
        assert len(batch) or batch is not None
    return infos


def check_uses(infos, n, factor, low):
    """Each example as often as is due, its uses counted, and weights where they are."""
    uses = Counter(index for index, _, _ in infos)
    assert set(uses) == set(range(n))
    seen = Counter()
    for index, echo, weight in infos:
        assert echo == seen[index]
        seen[index] += 1
        if not low(index) or echo == 0:
            assert weight == 1.0
    assert all(times == factor for index, times in uses.items() if not low(index))
    assert any(times < factor for index, times in uses.items() if low(index))
    assert {weight for _, _, weight in infos} == {1.0, 2.0}


def low(index):
    return index % 2 == 1


def loss_of(index):
    return 0.0 if low(index) else 1.0


def test_whole_batches_have_the_mean_of_their_losses():
    buffer = EchoBuffer(
        Field((3,), np.int64),
        unit="batch",
        window=8,
        factor=4,
        with_info=True,
        reuse="loss",
    )

    def feed():
        for number in range(40):
            buffer.put(np.full(2 + number % 2, number), timeout=WAIT_S)
        buffer.close()

    producer = Worker(feed)
    drawn = []
    for number, (batch, info) in enumerate(buffer):
        rows = len(batch)
        assert info.index.tolist() == [int(batch[0])] * rows
        drawn.append((int(batch[0]), int(info.echo[0]), float(info.weight[0])))
        mean = loss_of(int(batch[0]))
        # One number for all, or several: their mean counts.
        spread = np.linspace(-1, 1, rows) + mean
        buffer.report(info, mean if number % 2 else spread)
    producer.result()
    check_uses(drawn, 40, 4, low)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_records_that_differ_in_length(form):
    buffer = EchoBuffer(
        {"x": Field((None,), np.int64)},
        batch_size=5,
        window=16,
        factor=4,
        payload_bytes=1600,
        ragged=form,
        with_info=True,
        reuse="loss",
    )

    def feed():
        for number in range(80):
            buffer.put({"x": np.full(number % 5, number)}, timeout=WAIT_S)
        buffer.close()

    producer = Worker(feed)
    infos = []
    for batch, info in buffer:
        index = info.index.tolist()
        leaf = batch["x"]
        if form == "packed":
            lengths = np.diff(leaf.offsets).tolist()
        else:
            lengths = leaf.lengths.tolist()
        assert lengths == [i % 5 for i in index]
        infos += zip(index, info.echo.tolist(), info.weight.tolist(), strict=True)
        buffer.report(info, np.array([loss_of(i) for i in index], np.float32))
    producer.result()
    check_uses(infos, 80, 4, low)


def test_old_records_of_different_lengths_expire():
    buffer = EchoBuffer(
        {"x": Field((None,), np.int64, max_length=6)},
        batch_size=4,
        window=16,
        factor=4,
        with_info=True,
        max_staleness=1,
    )
    served = 0
    with buffer:
        for version in range(12):
            for number in range(4):
                put = version * 4 + number
                buffer.put({"x": np.full(put % 7, put)}, version=version)
            for _ in range(2):
                try:
                    _, info = buffer.next_batch(timeout=0.2)
                except TimeoutError:
                    continue
                served += len(info.index)
                assert (info.version >= version - 1).all()
        buffer.close()
        for _, info in buffer:
            served += len(info.index)
            assert (info.version >= 10).all()
        stats = buffer.stats()
        assert stats.served == served
        assert stats.served + stats.expired == 48 * 4


def test_with_auto_no_example_is_lost_and_uses_are_counted():
    buffer = EchoBuffer(
        np.int64(0),
        batch_size=4,
        window=16,
        factor="auto",
        max_factor=4,
        with_info=True,
        reuse="loss",
    )
    infos, put = [], 0

    def draw(timeout):
        _, info = buffer.next_batch(timeout=timeout)
        index = info.index.tolist()
        infos.extend(zip(index, info.echo.tolist(), info.weight.tolist(), strict=True))
        buffer.report(info, np.array([loss_of(i) for i in index], np.float32))

    with buffer:
        for turn in range(60):
            buffer.put_batch(np.arange(put, put + 1 + turn % 3), timeout=WAIT_S)
            put += 1 + turn % 3
            try:
                for _ in range(turn % 4):
                    draw(0.05)
            except TimeoutError:
                pass
        buffer.close()
        for _ in itertools.count():
            try:
                draw(WAIT_S)
            except StopIteration:
                break
    seen = Counter()
    for index, echo, _ in infos:
        assert echo == seen[index]
        seen[index] += 1
    assert set(seen) == set(range(put))
    assert max(seen.values()) <= 4
    assert 2.0 in {weight for _, _, weight in infos}


@pytest.mark.parametrize("batched", [False, True])
def test_loaders_take_reports(batched):
    data = np.arange(60)
    upstream = list(data) if not batched else [data[i : i + 7] for i in range(0, 60, 7)]
    loader = EchoLoader(
        upstream,
        batch_size=6,
        window=12,
        factor=3,
        batched=batched,
        length=60,
        with_info=True,
        reuse="loss",
        thin=0.5,
    )
    runs = []
    for _ in range(2):
        infos = draw_all(loader, loader, loss_of)
        check_uses(infos, 60, 3, low)
        runs.append(infos)
    assert runs[0] != runs[1]  # another epoch, other coins
    with pytest.raises(TypeError, match=r"with reuse='loss' the number of batches"):
        len(loader)
    assert loader.max_batches() == 30
    loader.set_epoch(0)
    assert draw_all(loader, loader, loss_of) == runs[0]


def test_a_loader_goes_on_from_its_state():
    def make():
        return EchoLoader(
            range(60), batch_size=6, window=12, factor=3, with_info=True, reuse="loss"
        )

    first, second = make(), make()
    batches = iter(first)
    for _ in range(7):
        _, info = next(batches)
        first.report(info, [loss_of(i) for i in info.index.tolist()])
    second.load_state_dict(first.state_dict())
    rest = [
        draw_all(each, by, loss_of) for each, by in ((batches, first), (second, second))
    ]
    assert rest[0] == rest[1]


def test_a_report_before_the_first_batch_is_refused():
    loader = EchoLoader(range(60), batch_size=6, factor=3, with_info=True, reuse="loss")
    info = echobuf.BatchInfo(np.arange(6), None, None, None)
    with pytest.raises(echobuf.OptionError, match=r"which has served none yet"):
        loader.report(info, np.zeros(6))
