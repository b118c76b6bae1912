"""Programs of test_keras.py: Keras has one backend a process.

python keras_runs.py FOLDER writes what came of each case to FOLDER/results.json.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import echobuf
import echobuf.keras

EXAMPLES = 40
BACKEND = keras.backend.backend()


def make_loader(n: int = EXAMPLES, **arguments: Any) -> Any:
    if BACKEND == "torch":
        import echobuf.torch as kind
    else:
        import echobuf.jax as kind
    rows = [(np.float32([number]), np.float32([0])) for number in range(n)]
    defaults = {"batch_size": 5, "window": 20, "factor": 2}
    return kind.EchoLoader(rows, **{**defaults, **arguments})


class Data(echobuf.keras.EchoDataset):
    """Notes what Keras was handed."""

    def __init__(self, loader: Any, **arguments: Any) -> None:
        super().__init__(loader, **arguments)
        self.handed: list[list[int]] = []

    def __getitem__(self, index: int) -> Any:
        batch = super().__getitem__(index)
        self.handed.append(np.asarray(batch[0]).ravel().astype(int).tolist())
        return batch


class Steps(keras.callbacks.Callback):
    """Notes the batches that were trained, and the rate of each step; may stop."""

    def __init__(self, data: Data, stop: int | None = None) -> None:
        super().__init__()
        self.data, self.stop = data, stop
        self.trained: list[list[int]] = []
        self.epochs: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(epoch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.trained.append(self.data.handed[-1])
        if len(self.trained) == self.stop:
            raise KeyboardInterrupt


def fit(
    folder: Path | None = None,
    *,
    stop: int | None = None,
    built: bool = True,
    save_freq: Any = 1,
    steps: int | None = None,
    validation: Any = None,
    epochs: int = 3,
    more: Sequence[Any] = (),
    together: int = 1,
    **arguments: Any,
) -> dict[str, Any]:
    keras.utils.set_random_seed(0)
    loader = make_loader(**arguments)
    data = Data(loader, steps_per_epoch=steps)
    seen = Steps(data, stop)
    callbacks: list[Any] = [seen, *more]
    if folder is not None:
        backup = echobuf.keras.BackupAndRestore(
            data, folder, save_freq=save_freq, delete_checkpoint=False
        )
        callbacks.insert(0, backup)
    shape = [keras.Input((1,))] if built else []
    model = keras.Sequential([*shape, keras.layers.Dense(1)])
    total = steps * epochs if steps else echobuf.schedule_steps(loader, epochs)
    rate = keras.optimizers.schedules.CosineDecay(1e-4, total)
    model.compile(keras.optimizers.SGD(rate), "mse", steps_per_execution=together)
    history = None
    with contextlib.suppress(KeyboardInterrupt):
        history = model.fit(
            data,
            epochs=epochs,
            callbacks=callbacks,
            validation_data=validation,
            verbose=0,
        )
    return {
        "trained": seen.trained,
        "epochs": seen.epochs,
        "rate": float(model.optimizer.learning_rate),
        "steps": int(model.optimizer.iterations),
        "weights": [np.asarray(each).ravel().tolist() for each in model.weights],
        "validated": history and history.history.get("val_loss"),
    }


def goes_on(folder: Path, stops: list[int], **arguments: Any) -> dict[str, Any]:
    """One run, and for each number of steps one that is interrupted and goes on."""
    rests = {}
    for stop in stops:
        here = folder / str(stop)
        before = fit(here, stop=stop, **arguments)
        after = fit(here, **arguments)
        rests[stop] = {**after, "before": before["trained"]}
    return {"whole": fit(**arguments), "rests": rests}


def refusals(folder: Path) -> dict[str, str]:
    said = {}

    def note(name: str, call: Any) -> None:
        try:
            call()
        except echobuf.EchobufError as error:
            said[name] = f"{type(error).__name__}: {error}"

    data = Data(make_loader())
    note("loader", lambda: echobuf.keras.EchoDataset([1]))
    note("data", lambda: echobuf.keras.BackupAndRestore([1], folder))
    note("state", lambda: data.load_state_dict({}))
    fit(folder, stop=3)
    kept = json.loads((folder / "echobuf.json").read_text())
    (folder / "echobuf.json").write_text(json.dumps({**kept, "steps": 99}))
    note("steps", lambda: fit(folder))
    (folder / "echobuf.json").unlink()
    note("weights", lambda: fit(folder))
    other = echobuf.keras.BackupAndRestore(Data(make_loader()), folder / "other")
    note("other data", lambda: fit(more=[other]))
    note("no batch", lambda: Data(make_loader(3, drop_last=True, factor=1)))
    note("length", lambda: Data(make_loader(factor="auto")))
    note("info", lambda: Data(make_loader(with_info=True)))
    note("empty", lambda: fit(n=0, steps=1, factor="auto"))
    return said


def page(folder: Path) -> int:
    """Run the code of docs/trainers.md; return the steps."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    path = Path(__file__).parents[3] / "docs" / "trainers.md"
    code = path.read_text().partition("## Keras 3")[2].split("```")[1]
    code = code.removeprefix("python").replace('"backup"', repr(str(folder)))
    exec(code, {"loader": make_loader(), "model": model})
    return int(model.optimizer.iterations)


def main(folder: Path) -> None:
    warnings.simplefilter("error", UserWarning)
    cuts = [1, 15, 16, 17, 33]
    threes = 3 if BACKEND == "jax" else 1  # with torch Keras takes no more
    results = {
        "built": fit(),
        "unbuilt": fit(built=False),
        "fractional": fit(factor=1.25, window=32, epochs=4, n=9, batch_size=1),
        "auto": fit(factor="auto", steps=7),
        "chained": fit(steps=10),
        "validated": fit(validation=Data(make_loader(20, factor=1))),
        "goes on": goes_on(folder / "steps", cuts),
        "goes on, chained": goes_on(folder / "chained", [3, 7, 18], steps=7),
        "goes on, by epochs": goes_on(folder / "epochs", [17, 33], save_freq="epoch"),
        "goes on, by threes": goes_on(folder / "threes", [2, 6, 8], together=threes),
        "page": page(folder / "page"),
        "refusals": refusals(folder / "refusals"),
    }
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
