"""Upstreams whose items are tensors that the device makes."""

import contextlib
import time

import pytest

import echobuf
from gpu_records import ids_of
from test_gpu_torch import leaves, loader, torch, upstream

__all__ = ["torch"]  # a fixture

pytestmark = pytest.mark.gpu
SLEEP = 200_000  # cycles that each item takes the device


class Made:
    """Batches that the device makes late, in memory that is used again at once.

    Args:
        torch: the module.
        stream: that it makes them on; None: the current one.
    """

    def __init__(self, torch, stream=None, cycles=SLEEP):
        self._torch = torch
        self._stream = stream
        self._cycles = cycles

    def __iter__(self):
        for item in upstream(self._torch):
            with self._current():
                self._torch.cuda._sleep(self._cycles)  # noqa: SLF001 - torch's
                made = {
                    "id": item["id"].cuda(),
                    "body": tuple(leaf.cuda() for leaf in item["body"]),
                }
                yield made
                for leaf in leaves(made):
                    leaf.view(self._torch.uint8).zero_()

    def _current(self):
        if self._stream is None:
            return contextlib.nullcontext()
        return self._torch.cuda.stream(self._stream)


def loader_of(items):
    from echobuf.torch import EchoLoader

    kwargs = {"batch_size": 16, "window": 96, "factor": 3, "seed": 9}
    return EchoLoader(items, batched=True, device="cuda", **kwargs)


@pytest.mark.parametrize("place", ["default", "caller's", "upstream's"])
def test_items_on_the_device_come_in_the_order_of_the_cpu(cuda, torch, place):
    want = [ids_of(cuda.host(batch)) for batch in loader(torch, "cpu")]
    stream = None if place == "default" else torch.cuda.Stream()
    own = stream if place == "upstream's" else None
    callers = stream if place == "caller's" else torch.cuda.default_stream()
    with torch.cuda.stream(callers):
        ids = [batch["id"].clone() for batch in loader_of(Made(torch, own))]
        got = [each.tolist() for each in ids]
    assert got == [list(each) for each in want]


def test_the_time_of_an_item_is_the_devices(torch):
    """`next` returns at once, and the device sleeps."""
    cycles = 50_000_000
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(cycles)  # noqa: SLF001 - torch's
    torch.cuda.synchronize()
    sleep_s = time.perf_counter() - begin
    report = echobuf.analyze(
        Made(torch, cycles=cycles),
        lambda batch: batch["id"].sum().item(),
        device="cuda",
        seconds=3,
    )
    measured = report.measurements
    assert measured.upstream_second_s.mean * measured.item == pytest.approx(
        sleep_s, rel=0.3
    )
