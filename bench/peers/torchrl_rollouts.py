"""TorchRL: a window whose samples are dropped after so many uses."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

from peers.rollout_windows import Drawing, Play, count_of_uses, prepared, spec_of


def make_buffer(settings: dict[str, Any]) -> Any:
    """Return a buffer that drops samples after `factor` uses."""
    from torchrl.data import ConsumingSampler, LazyTensorStorage, ReplayBuffer

    return ReplayBuffer(
        storage=LazyTensorStorage(settings["window"]),
        sampler=ConsumingSampler(settings["factor"]),
        batch_size=settings["batch"],
        prefetch=settings.get("prefetch") or None,
    )


class Consuming(Drawing):
    """The same thread adds, and keeps the window full: a full one overwrites."""

    packages = ("torchrl", "tensordict", "torch")
    guarantees = (
        ("exact use", "as often as the sampler says"),
        ("shuffled", "uniform draws from what is left"),
        ("duplicates in a batch", "none"),
        ("batch", "copied; the caller's"),
    )

    def prepare(self) -> None:
        import torch
        from tensordict import TensorDict

        torch.set_num_threads(1)
        self.buffer = make_buffer(self.settings)
        rows = [
            {name: torch.from_numpy(array) for name, array in rollout.items()}
            for rollout in prepared(self.floats)
        ]
        self.rollouts = itertools.cycle(TensorDict(row, []) for row in rows)

    def fill(self) -> None:
        while len(self.buffer) < self.settings["window"]:
            self.buffer.add(next(self.rollouts))

    def draw(self) -> Any:
        if len(self.buffer) <= self.settings["window"] - self.batch:
            self.fill()
        return self.buffer.sample()


class Generated(Consuming):
    """The same, from a process: what it has committed is added before each draw."""

    def prepare(self) -> None:
        import torch
        from tensordict import TensorDict

        super().prepare()
        import generators

        slots = generators.Slots(spec_of(self.floats), 64)
        make_play = functools.partial(Play, self.floats)
        self.process = generators._context.Process(  # noqa: SLF001
            target=generators.generate, args=(make_play, slots), daemon=True
        )
        self.process.start()
        self.slots = slots
        arrays = {k: torch.from_numpy(v) for k, v in slots.stacked().items()}
        self.records = itertools.cycle(TensorDict(arrays, [slots.count]).unbind(0))

    def fill(self) -> None:
        while len(self.buffer) < self.settings["window"]:
            self.slots.committed.acquire()
            self.buffer.add(next(self.records))
            self.slots.free.release()

    def close(self) -> None:
        self.process.kill()
        self.process.join()


def uses(settings: dict[str, Any]) -> dict[str, Any]:
    """Return how often rollouts are used.

    With `waits` in the settings a rollout is added when there is room, else one batch
    is drawn for as many rollouts: a generator that is `factor` times too fast.
    """
    import torch
    from tensordict import TensorDict

    buffer = make_buffer(settings)
    found: Counter[int] = Counter()

    def draw() -> None:
        found.update(buffer.sample()["number"].tolist())

    for number in range(settings["rollouts"]):
        if settings["waits"]:
            while len(buffer) == settings["window"]:
                draw()
        elif number % settings["batch"] == 0 and number:
            draw()
        buffer.add(TensorDict({"number": torch.tensor(number)}, []))
    while len(buffer):
        draw()
    return count_of_uses(found, settings["rollouts"])
