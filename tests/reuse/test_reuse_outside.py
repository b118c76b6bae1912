"""`reuse="loss"` and `max_staleness`, from their documentation alone."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import echobuf
import echobuf.serve
from echobuf import BatchInfo, EchoBuffer, EchoLoader
from echobuf.testing import simulated_cuda

WAIT = 10.0
LOSSES = np.random.default_rng(5).exponential(size=4096)


def losses(info: Any) -> Any:
    """Return losses that fall with each use."""
    index, echo = np.asarray(info.index), np.asarray(info.echo)
    return (LOSSES[index] / (1 + echo)).astype(np.float32)


def make(**options: Any) -> EchoBuffer:
    usual: dict[str, Any] = {
        "batch_size": 4,
        "window": 8,
        "factor": 2,
        "with_info": True,
        "reuse": "loss",
    }
    return EchoBuffer(np.int64(0), **{**usual, **options})


def produce(buffer: EchoBuffer, first: int, end: int) -> None:
    """Put examples on a thread, then close."""

    def run() -> None:
        try:
            buffer.put_batch(np.arange(first, end), timeout=WAIT)
            buffer.close()
        except (TimeoutError, echobuf.EchobufError) as error:
            buffer.fail(error)

    threading.Thread(target=run, daemon=True).start()


def batches(buffer: EchoBuffer) -> Iterator[Any]:
    """Draw until the end, and never wait for long."""
    while True:
        try:
            yield buffer.next_batch(timeout=WAIT)
        except StopIteration:
            return


def listed(batch: Any, info: Any) -> tuple[Any, ...]:
    return (np.asarray(batch).tolist(), *(np.asarray(a).tolist() for a in info))


# --- the rules of passes, of docs/reuse.md -------------------------------------------


def plain_passes(n: int, window: int, factor: int) -> list[list[int]]:
    """Return the passes of plain echoing."""
    buffer = make(batch_size=1, window=window, factor=factor, reuse=None)
    produce(buffer, 0, n)
    passes = defaultdict(list)
    for batch, _ in batches(buffer):
        passes[buffer.stats().passes].append(int(batch[0]))
    return [passes[number] for number in sorted(passes)]


@pytest.mark.parametrize("thin", [0, 0.5, 0.999])
@pytest.mark.parametrize(("every", "lag"), [(1, 0), (2, 0), (1, 5)])
@pytest.mark.parametrize(
    ("n", "window", "factor"), [(40, 8, 2), (64, 16, 4), (37, 12, 3), (20, 20, 4)]
)
def test_passes_follow_the_rules(
    n: int, window: int, factor: int, every: int, lag: int, thin: float
) -> None:
    """Compare each pass with the plain one, the losses known then, and their mean."""
    passes = plain_passes(n, window, factor)
    buffer = make(batch_size=1, window=window, factor=factor, thin=thin)
    produce(buffer, 0, n)
    known: dict[int, float] = {}
    before: dict[int, dict[int, float]] = {}
    served: dict[int, dict[int, float]] = defaultdict(dict)
    uses: Counter[int] = Counter()
    late: list[Any] = []
    last = 0
    snapshot: dict[int, float] = {}
    for step, (batch, info) in enumerate(batches(buffer)):
        number, example = buffer.stats().passes, int(batch[0])
        before.update(dict.fromkeys(range(last + 1, number + 1), snapshot))
        last = number
        assert info.index.tolist() == [example]
        assert info.echo.tolist() == [uses[example]]
        uses[example] += 1
        served[number][example] = float(info.weight[0])
        late.append((info, example, float(losses(info)[0])))
        while len(late) > lag:
            told, which, loss = late.pop(0)
            if step % every == 0:
                buffer.report(told, [loss])
                known[which] = loss
        snapshot = dict(known)
    first: set[int] = set()
    for number, order in enumerate(passes, 1):
        losses_then = before.get(number, snapshot)
        values = [losses_then[x] for x in order if x in losses_then]
        mean = float(np.mean(values)) if values else -np.inf
        low = {x for x in order if losses_then.get(x, np.inf) < mean} & first
        first |= set(order)
        there = served[number]
        assert list(there) == [x for x in order if x in there]
        for example in order:
            if example not in low:
                assert there[example] == 1
            elif example in there:
                assert there[example] == pytest.approx(1 / (1 - thin))


def test_weights_are_unbiased_and_low_losses_are_served_less() -> None:
    n, rounds = 40, 250
    for factor, thin in ((4, 0.5), (2.5, 0.8)):
        weights, uses = np.zeros(n), np.zeros(n)
        for seed in range(rounds):
            buffer = make(batch_size=5, window=20, factor=factor, thin=thin, seed=seed)
            produce(buffer, 0, n)
            for batch, info in batches(buffer):
                np.add.at(weights, batch, info.weight)
                np.add.at(uses, batch, 1)
                buffer.report(info, losses(info))
        spread = np.sqrt((factor - 1) * thin / (1 - thin) + 0.25) / np.sqrt(rounds)
        assert abs(weights.mean() / rounds - factor) < 5 * spread / np.sqrt(n) + 0.05
        assert (abs(weights / rounds - factor) < 5 * spread).all()
        assert uses.sum() < 0.9 * factor * rounds * n


# --- what people report --------------------------------------------------------------


def order_with(convert: Callable[[Any], Any]) -> list[Any]:
    buffer = make(window=16, factor=4)
    produce(buffer, 0, 40)
    out = []
    for batch, info in batches(buffer):
        out.append(listed(batch, info))
        buffer.report(info, convert(np.asarray(batch % 7, np.float32)))
    return out


def test_every_kind_of_losses_gives_the_same_order() -> None:
    torch = pytest.importorskip("torch")
    expected = order_with(lambda loss: loss)
    assert any(2.0 in weights for _, _, _, weights, _ in expected)
    for convert in (
        lambda loss: loss.tolist(),
        tuple,
        lambda loss: loss.astype(np.float64),
        lambda loss: loss.astype(">f4"),
        lambda loss: np.repeat(loss, 3)[::3],
        lambda loss: loss.astype(np.uint8),
        torch.from_numpy,
        lambda loss: torch.from_numpy(loss).requires_grad_() * 1,
        lambda loss: torch.from_numpy(loss).bfloat16().requires_grad_(),
        lambda loss: torch.from_numpy(loss).double(),
        lambda loss: list(torch.from_numpy(loss)),
    ):
        assert order_with(convert) == expected


def test_refused_losses_change_nothing() -> None:
    wrong: list[Callable[[Any], Any]] = [
        lambda loss: loss.mean(),
        lambda loss: loss[:, None],
        lambda loss: loss[:-1],
        lambda loss: loss * np.nan,
        lambda loss: loss + np.inf,
        lambda loss: loss > 3,
        lambda loss: [str(x) for x in loss],
        lambda loss: None,
    ]

    def ordered(disturb: bool) -> list[Any]:
        buffer = make(window=16, factor=4)
        produce(buffer, 0, 40)
        out = []
        for batch, info in batches(buffer):
            out.append(listed(batch, info))
            buffer.report(info, losses(info))
            for change in wrong if disturb else []:
                with pytest.raises((echobuf.SpecError, echobuf.OptionError)) as told:
                    buffer.report(info, change(np.float32(batch)))
                assert "`loss`" in str(told.value)
        return out

    assert ordered(True) == ordered(False)


def test_infos_in_parts_pickled_and_from_json() -> None:
    def ordered(change: Callable[[Any], list[Any]]) -> list[Any]:
        buffer = make(window=16, factor=4)
        produce(buffer, 0, 40)
        out = []
        for batch, info in batches(buffer):
            out.append(listed(batch, info))
            for part in change(info):
                buffer.report(part, losses(part))
        return out

    def halves(info: Any) -> list[Any]:
        return [BatchInfo(*(a[half::2] for a in info)) for half in (0, 1)]

    expected = ordered(lambda info: [info])
    assert ordered(halves) == expected
    assert ordered(lambda info: [info, info]) == expected
    assert ordered(lambda info: [pickle.loads(pickle.dumps(info))]) == expected
    as_lists = ordered(
        lambda info: [BatchInfo(*json.loads(json.dumps([a.tolist() for a in info])))]
    )
    assert as_lists == expected


def test_jax_and_torch_loops_get_the_same_batches() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    import echobuf.jax
    import echobuf.torch

    upstream = [np.float32(i) for i in range(60)]
    options: dict[str, Any] = {"batch_size": 5, "window": 16, "factor": 4}
    options |= {"with_info": True, "reuse": "loss"}

    def ordered(loader: Any, step: Callable[[Any, Any], Any]) -> list[Any]:
        out = []
        for batch, info in loader:
            out.append(listed(batch, info))
            loader.report(info, step(batch, info))
        return out

    weight = torch.ones((), requires_grad=True)

    def torch_step(batch: Any, info: Any) -> Any:
        loss = (batch * weight) ** 2
        (loss * info.weight).mean().backward()
        return loss

    jax_step = jax.jit(lambda batch, info: batch**2)
    expected = ordered(EchoLoader(upstream, **options), lambda batch, info: batch**2)
    found = [
        ordered(echobuf.torch.EchoLoader(upstream, **options), torch_step),
        ordered(echobuf.jax.EchoLoader(upstream, **options), jax_step),
    ]
    assert found == [expected, expected]


def test_simulated_device_draws_what_the_cpu_draws() -> None:
    def ordered(device: str) -> list[Any]:
        buffer = make(batch_size=5, window=16, factor=2.5, device=device)
        produce(buffer, 0, 60)
        out = []
        for batch, info in batches(buffer):
            mine = BatchInfo(*(np.array(a.tolist()) for a in info))
            out.append((batch.tolist(), *(a.tolist() for a in mine)))
            buffer.report(mine, losses(mine))
        return out

    with simulated_cuda(1):
        on_device = ordered("cuda")
    assert on_device == ordered("cpu")


# --- late, from elsewhere ------------------------------------------------------------


def make_loader(upstream: Any = None, **options: Any) -> EchoLoader:
    items = [np.int64(i) for i in range(50)] if upstream is None else upstream
    usual: dict[str, Any] = {"batch_size": 5, "window": 16, "factor": 2}
    return EchoLoader(items, with_info=True, reuse="loss", **{**usual, **options})


def epoch_of(loader: EchoLoader) -> list[Any]:
    out = []
    for batch, info in loader:
        out.append(listed(batch, info))
        loader.report(info, losses(info))
    return out


def test_loader_repeats_an_epoch_and_serves_the_same_from_a_server() -> None:
    loader, overlapping = make_loader(), make_loader(overlap_epochs=True, prefetch=2)
    first, second = epoch_of(loader), epoch_of(loader)
    assert first != second
    assert [epoch_of(overlapping), epoch_of(overlapping)] == [first, second]
    loader.set_epoch(0)
    assert epoch_of(loader) == first
    name = f"reuse-outside-{os.getpid()}"
    upstream = [np.int64(i) for i in range(50)]
    with echobuf.serve.Server(upstream, name, window=16):
        attached = echobuf.serve.attach(name, timeout=WAIT)
        with make_loader(attached) as served:
            assert epoch_of(served) == first


def test_reports_one_step_late_go_on_over_epochs() -> None:
    """Report each batch after the next one was drawn, as loops that overlap do."""
    loader, before = make_loader(), None
    for _ in range(2):
        for _, info in loader:
            if before is not None:
                loader.report(before, losses(before))
            before = info


def test_losses_beyond_float32_are_refused_or_count() -> None:
    buffer = make()
    produce(buffer, 0, 8)
    _, info = buffer.next_batch(timeout=WAIT)
    with contextlib.suppress(echobuf.OptionError):
        buffer.report(info, np.full(4, 1e300))


def test_reports_from_another_thread_while_batches_are_drawn() -> None:
    buffer = make(batch_size=7, window=64, factor=4)
    produce(buffer, 0, 1500)
    told: list[Any] = []
    ended = threading.Event()
    failed: list[BaseException] = []

    def report() -> None:
        try:
            while not ended.is_set():
                for info in told[-40:]:
                    buffer.report(info, losses(info))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=report, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    uses: Counter[int] = Counter()
    for batch, info in batches(buffer):
        told.append(info)
        if len(told) == 1:
            buffer.report(info, losses(info))
        for example, echo in zip(batch.tolist(), info.echo.tolist(), strict=True):
            assert echo == uses[example]
            uses[example] += 1
    ended.set()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert not failed
    assert sorted(uses) == list(range(1500))
    assert max(uses.values()) == 4
    assert buffer.stats().served == sum(uses.values()) < 4 * 1500
