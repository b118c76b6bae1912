"""The cost of a loader in trainers when input is no bottleneck.

Each trainer trains the same small network (some 20 ms a step, on one thread) for 96
steps: from its plain DataLoader, from an `EchoLoader` around that with factor 1, and
with factor 2. A process has one trainer, and takes the three by turns; the time is that
from the begin of training to its end, so that it includes filling the window. The
process keeps memory that was freed, so that no time is the kernel's, for pages of the
model's gradients.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from sampling import RESULTS

BATCH, STEPS, WINDOW = 32, 96, 8 * 32
INPUTS, HIDDEN = 3072, 2560  # an image of 32 x 32, as float32
ROUNDS = 9
CANDIDATES = {"plain": None, "factor 1": 1, "factor 2": 2}
TRAINERS = ["plain loop", "accelerate", "lightning", "transformers", "keras torch",
            "keras jax"]  # fmt: skip

# The model's gradients are 31 MB, which a step allocates and frees. Left to itself,
# glibc gives that memory back to the kernel in some steps, and the next step then waits
# for its pages. A loader's small allocations decide in which steps.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # bytes; fixed, for it is adapted otherwise
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}

Run = Callable[[Any], float]


def make_data() -> Any:
    import torch
    from torch.utils.data import TensorDataset

    inputs = torch.randn(BATCH * STEPS, INPUTS)
    return TensorDataset(inputs, torch.randint(0, 10, (BATCH * STEPS,)))


def make_model() -> Any:
    import torch

    layers = (
        torch.nn.Linear(INPUTS, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, 10),
    )
    return torch.nn.Sequential(*layers)


def make_loader(data: Any, factor: Any, kind: Any = None) -> Any:
    """Return the DataLoader, or what echoes it."""
    from torch.utils.data import DataLoader

    import echobuf.torch

    plain = DataLoader(data, BATCH, shuffle=True, drop_last=True)
    if factor is None:
        return plain
    return (kind or echobuf.torch.EchoLoader)(plain, window=WINDOW, factor=factor)


def take(loader: Any, step: Callable[[Any], Any]) -> float:
    """Return the seconds of so many steps, from the first request of a batch."""
    begun = time.perf_counter()
    for number, batch in enumerate(loader, start=1):
        step(batch)
        if number == STEPS:
            break
    return time.perf_counter() - begun


def plain_loop(data: Any) -> Run:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch: Any) -> None:
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return lambda factor: take(make_loader(data, factor), step)


def accelerate(data: Any) -> Run:
    import torch
    from accelerate import Accelerator

    import echobuf.accelerate

    accelerator = Accelerator(cpu=True)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)

    def step(batch: Any) -> None:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

    def run(factor: Any) -> float:
        loader = make_loader(data, factor, echobuf.accelerate.EchoLoader)
        return take(accelerator.prepare(loader), step)

    return run


def lightning(data: Any) -> Run:
    import torch
    from lightning.pytorch import LightningModule, Trainer

    class Timed(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = make_model()

        def on_train_start(self) -> None:
            self.begun = time.perf_counter()

        def on_train_end(self) -> None:
            self.seconds = time.perf_counter() - self.begun

        def training_step(self, batch: Any, number: int) -> Any:
            return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    model = Timed()
    quiet = ["logger", "enable_checkpointing", "enable_progress_bar"]
    quiet += ["enable_model_summary"]

    def run(factor: Any) -> float:
        settings: dict[str, Any] = dict.fromkeys(quiet, False)
        trainer = Trainer(accelerator="cpu", max_steps=STEPS, **settings)
        trainer.fit(model, make_loader(data, factor))
        return model.seconds

    return run


def transformers(data: Any) -> Run:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from echobuf.transformers import EchoTrainer

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = make_model()

        def forward(self, inputs: Any, labels: Any) -> dict[str, Any]:
            value = self.layers(inputs)
            loss = torch.nn.functional.cross_entropy(value, labels)
            return {"loss": loss, "logits": value}

    class Clock(TrainerCallback):
        seconds = 0.0

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.begun = time.perf_counter()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.seconds = time.perf_counter() - self.begun

    def collate(examples: list[Any]) -> dict[str, Any]:
        inputs, labels = zip(*examples, strict=True)
        return {"inputs": torch.stack(inputs), "labels": torch.stack(labels)}

    folder = tempfile.mkdtemp()
    model = Classifier()

    def run(factor: Any) -> float:
        clock = Clock()
        args = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=BATCH, use_cpu=True,
            save_strategy="no", report_to=[], disable_tqdm=True, optim="sgd",
            logging_strategy="no",
        )  # fmt: skip
        kind, more = Trainer, {}
        if factor is not None:
            kind, more = EchoTrainer, {"echo": {"window": WINDOW, "factor": factor}}
        arguments = {"train_dataset": data, "data_collator": collate, **more}
        kind(model, args, callbacks=[clock], **arguments).train()
        return clock.seconds

    return run


def keras(data: Any) -> Run:
    import keras

    import echobuf.jax
    import echobuf.keras
    import echobuf.torch

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begun = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds = time.perf_counter() - self.begun

    relu = keras.layers.Dense(HIDDEN, activation="relu")
    model = keras.Sequential([keras.Input((INPUTS,)), relu, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    kinds = {"torch": echobuf.torch.EchoLoader, "jax": echobuf.jax.EchoLoader}
    kind = kinds[keras.backend.backend()]

    def run(factor: Any) -> float:
        clock, loader = Clock(), make_loader(data, factor, kind)
        if factor is not None:
            loader = echobuf.keras.EchoDataset(loader, steps_per_epoch=STEPS)
        model.fit(loader, callbacks=[clock], verbose=0)
        return clock.seconds

    return run


def measure(trainer: str, rounds: int) -> dict[str, list[float]]:
    import torch

    torch.set_num_threads(1)
    makers = {
        "plain loop": plain_loop,
        "accelerate": accelerate,
        "lightning": lightning,
    }
    makers |= {"transformers": transformers, "keras torch": keras, "keras jax": keras}
    run = makers[trainer](make_data())
    times: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    names = list(CANDIDATES)
    for number in range(-1, rounds):
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            seconds = run(CANDIDATES[name])
            if number >= 0:
                times[name].append(seconds / STEPS)
    return times


def ask(trainer: str, rounds: int) -> dict[str, list[float]]:
    """Measure in a process that has one thread, and Keras' backend."""
    backend = trainer.partition("keras ")[2] or "torch"
    names = {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    names["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    names["TF_CPP_MIN_LOG_LEVEL"] = "3"
    names |= MALLOC
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        command = [sys.executable, __file__, "--measure", trainer, answer.name]
        command += ["--rounds", str(rounds)]
        subprocess.run(command, check=True, env={**os.environ, **names})
        return json.load(answer)


def summarize(times: dict[str, list[float]]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "ms_per_step": {
            name: statistics.median(each) * 1e3 for name, each in times.items()
        }
    }
    for name, each in times.items():
        if name != "plain":
            ratio = paired_ratio(each, times["plain"])
            figures[name] = {"over_plain": ratio.median, "ratio_range": ratio.range}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", default="", help="trainers with one of these words")
    parser.add_argument("--measure", nargs=2, metavar=("TRAINER", "FILE"))
    options = parser.parse_args()
    if options.measure:
        trainer, answer = options.measure
        Path(answer).write_text(json.dumps(measure(trainer, options.rounds)))
        return
    about = environment()
    found = {}
    if options.only and (kept := options.out / "trainers.json").exists():
        found = json.loads(kept.read_text())["trainers"]
    for trainer in TRAINERS:
        if any(word in trainer for word in options.only.split(",")):
            found[trainer] = summarize(ask(trainer, options.rounds))
            each = found[trainer]
            ones = [f"{name} {each[name]['over_plain']:.3f}" for name in list(each)[1:]]
            print(f"{trainer:14} {each['ms_per_step']['plain']:6.1f} ms a step;", *ones)
    figures = {"steps": STEPS, "batch": BATCH, "window": WINDOW, "trainers": found}
    write_figures("trainers", options.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
