"""Records that expire: of different lengths, and with "auto"."""

import itertools
from collections import Counter

import numpy as np
import pytest

from echobuf import EchoBuffer, Field
from helpers import WAIT_S

pytestmark = pytest.mark.contract


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


def test_with_auto_what_is_new_enough_is_served_and_uses_are_counted():
    buffer = EchoBuffer(
        np.int64(0),
        batch_size=4,
        window=16,
        factor="auto",
        max_factor=4,
        with_info=True,
        max_staleness=3,
    )
    infos, put = [], 0

    def draw(timeout):
        _, info = buffer.next_batch(timeout=timeout)
        assert (info.version == info.index // 4).all()
        infos.extend(zip(info.index.tolist(), info.echo.tolist(), strict=True))

    with buffer:
        for turn in range(60):
            ids = np.arange(put, put + 1 + turn % 3)
            put += len(ids)
            buffer.put_batch(ids, timeout=WAIT_S, version=ids // 4)
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
        stats = buffer.stats()
    seen = Counter()
    for index, echo in infos:
        assert echo == seen[index]
        seen[index] += 1
    assert max(seen.values()) <= 4
    assert stats.served == len(infos)
    newest = (put - 1) // 4
    assert {index for index in range(put) if index // 4 >= newest - 3} <= set(seen)
