"""`echobuf.keras`: loaders for `model.fit` of Keras 3, on torch and JAX."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from echobuf.arguments import check_int
from echobuf.errors import OptionError, StateError, message
from echobuf.loader.loader import EchoLoader, internals_of

__all__ = ["BackupAndRestore", "EchoDataset"]

_STATE_NAME = "echobuf.json"
_AHEAD = 2  # batches that Keras takes before it trains with the first one, at most


@dataclass(frozen=True)
class _Drawn:
    """A batch, and the position after it."""

    batch: Any
    state: dict[str, Any]


class EchoDataset(keras.utils.PyDataset):  # type: ignore[misc]
    """A loader as a dataset that `model.fit` takes.

    Batches of the loader are tuples `(inputs,)`, `(inputs, targets)` or `(inputs,
    targets, sample_weights)`, or dicts, as Keras has them. With the torch backend give
    an `echobuf.torch.EchoLoader`, with JAX an `echobuf.jax.EchoLoader`; one of NumPy
    arrays works with both.

    An epoch of `fit` is one of the loader; with a fractional factor all have the
    length of the shortest one. With `steps_per_epoch` (of this class, not of `fit`) an
    epoch of `fit` has so many batches, and the loader begins its next epoch wherever
    one ends.

    Args:
        loader: an `EchoLoader`; epochs begin with its number 0.
        steps_per_epoch: batches in an epoch of `fit`. It is needed with factor="auto",
            and where upstream's length is not known.

    Raises:
        OptionError: `loader` is no `EchoLoader`, the length of its epochs is 0, or not
            known, and `steps_per_epoch` not given, or Keras runs on another backend.

    Examples:
        >>> import keras
        >>> import echobuf.keras
        >>> items = [(np.ones(3, np.float32), np.float32(1)) for _ in range(16)]
        >>> loader = EchoLoader(items, batch_size=4, factor=2)
        >>> data = echobuf.keras.EchoDataset(loader)
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = model.fit(data, epochs=2, verbose=0)
        >>> len(history.history["loss"]), model.optimizer.iterations.numpy().item()
        (2, 16)
        >>> state = data.state_dict()
        >>> data.load_state_dict(state)
    """

    def __init__(
        self, loader: EchoLoader, *, steps_per_epoch: int | None = None
    ) -> None:
        super().__init__()
        if not isinstance(loader, EchoLoader):
            raise OptionError(
                f"`loader` is a {type(loader).__name__}; it must be an EchoLoader."
            )
        if internals_of(loader).plan.options.with_info:
            raise OptionError(
                "`loader` has with_info=True, and Keras takes a tuple for inputs and "
                "targets; leave it out, or use a loop of your own."
            )
        self._chained = steps_per_epoch is not None
        self._length = _find_length(loader, steps_per_epoch)
        backend = keras.backend.backend()
        if backend not in ("torch", "jax"):
            raise OptionError(
                f"Keras runs on {backend!r}; it must be 'torch' or 'jax': set the "
                "environment variable KERAS_BACKEND before Keras is imported."
            )
        self._loader = loader
        self._batches: Iterator[Any] | None = None  # of the loader's epoch
        self._epoch = 0  # number of that epoch, or of the next one
        # Of an epoch of `fit`:
        self._is_open = False
        self._drawn = 0  # batches drawn, before it was interrupted and since
        self._count = 0  # batches handed out since
        self._last: deque[_Drawn] = deque(maxlen=_AHEAD + 1)
        # `fit` looks at a batch before it trains, where the model is not built.
        self._may_look = True
        self._again: list[_Drawn] = []
        self._quiet: warnings.catch_warnings[Any] | None = None

    @property
    def num_batches(self) -> int:
        """Batches in this epoch of `fit`; in a resumed one those that are left."""
        if not self._is_open:
            return self._length
        return self._length - self._drawn + len(self._again) + self._count

    @property
    def num_handed_out(self) -> int:
        """Batches that Keras has taken in this epoch of `fit`, since it was resumed."""
        return self._count

    # ---- Keras calls these

    def __getitem__(self, index: int) -> Any:
        """Return the next batch, whatever the index: the loader decides the order."""
        drawn = self._again.pop(0) if self._again else self._draw()
        self._count += 1
        self._last.append(drawn)
        if self._drawn == self._length and self._count < self._drawn:
            self._end_quietly()
        return drawn.batch

    def on_epoch_begin(self) -> None:
        """Begin an epoch of `fit`."""
        self._is_open = True
        self._count = 0
        self._last.clear()

    def on_epoch_end(self) -> None:
        """End an epoch of `fit`; Keras calls it before the first one, too."""
        if self._quiet is not None:
            self._quiet.__exit__(None, None, None)
            self._quiet = None
        if not self._is_open:
            self._may_look = False
            return
        self._is_open = False
        may_look, self._may_look = self._may_look, False
        if may_look and self._count <= _AHEAD and self._drawn < self._length:
            self._again = list(self._last)
            return
        self._drawn = 0
        if not self._chained:
            self._end_loader_epoch()

    # ---- the loader's epochs

    def _draw(self) -> _Drawn:
        batch = next(self._begun(), None)
        if batch is None and self._chained:
            self._end_loader_epoch()
            batch = next(self._begun(), None)
        if batch is None:
            raise OptionError(
                "`loader` yields no batch; give `loader` more examples, or a smaller "
                "`batch_size`."
            )
        self._drawn += 1
        return _Drawn(batch, self._state())

    def _begun(self) -> Iterator[Any]:
        if self._batches is None:
            self._loader.set_epoch(self._epoch)
            self._batches = iter(self._loader)
        return self._batches

    def _end_loader_epoch(self) -> None:
        self._batches = None
        self._again = []
        self._epoch += 1

    def _end_quietly(self) -> None:
        """Keep Keras from warning that a resumed epoch ends early."""
        if self._quiet is None:
            self._quiet = warnings.catch_warnings()
            self._quiet.__enter__()
            warnings.filterwarnings("ignore", "Your input ran out of data")

    # ---- states

    def _state(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "batches": self._drawn,
            "loader": self._loader.state_dict(),
        }

    def state_dict(self, trained: int | None = None) -> dict[str, Any]:
        """Return the position in the training data, as a dict for JSON.

        Args:
            trained: batches of this epoch of `fit` that were trained; by default all
                that were handed out. On JAX with an accelerator Keras takes a batch
                ahead.

        Raises:
            OptionError: more batches than that are in between.
        """
        behind = 0 if trained is None else self._count - trained
        if trained == 0 or not self._last:
            return self._state()
        if not 0 <= behind < len(self._last):
            raise OptionError(
                f"`trained` is {trained}, but {self._count} batches were handed out; "
                f"it must be one of the last {len(self._last)}."
            )
        return dict(self._last[-1 - behind].state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at such a position, with a loader of equal arguments.

        Raises:
            StateError: the state is damaged, or of other arguments.
        """
        try:
            epoch, drawn = int(state_dict["epoch"]), int(state_dict["batches"])
            position = state_dict["loader"]
        except (KeyError, TypeError, ValueError):
            raise StateError(
                "`state_dict` is not that of an EchoDataset; give what its "
                "`state_dict()` returned."
            ) from None
        self._loader.load_state_dict(position)
        self._batches = None
        self._again = []
        self._epoch, self._drawn = epoch, drawn
        if self._chained:
            self._epoch = position["epoch"]
        elif drawn == self._length:
            self._epoch += 1
        if drawn == self._length:
            self._drawn = 0


def _find_length(loader: EchoLoader, steps: int | None) -> int:
    """Return the batches in an epoch of `fit`."""
    if steps is not None:
        return check_int("steps_per_epoch", steps, 1, None)
    try:
        len(loader)
    except TypeError as error:
        raise OptionError(
            f"`steps_per_epoch` is None, but {message(error)} Give "
            "`steps_per_epoch`, an int >= 1: the batches in an epoch of `fit`."
        ) from None
    least = internals_of(loader).plan.epoch_length().count_least()
    if least == 0:
        raise OptionError(
            "`loader` has epochs without a batch; give `loader` more examples, a "
            "smaller `batch_size`, or `steps_per_epoch`."
        )
    return least


class BackupAndRestore(keras.callbacks.BackupAndRestore):  # type: ignore[misc]
    """Keras' callback of that name, which keeps the position in the data, too.

    `fit` that is run again after it was interrupted goes on with the batch that would
    have come next, also in the middle of an epoch (`save_freq` an int).

    Args:
        data: the dataset that `fit` is given.
        backup_dir: folder of the backup, as for Keras' callback.
        save_freq: "epoch", or a number of batches.
        double_checkpoint: as for Keras' callback.
        delete_checkpoint: as for Keras' callback.

    Raises:
        OptionError: `data` is no `EchoDataset`; when a batch was trained: it is not
            the one that `fit` reads.
        StateError: when training begins: data and weights of the backup are of
            different steps, the backup has no data, or the loader has other
            arguments.

    Examples:
        >>> import keras
        >>> import echobuf.keras
        >>> items = [(np.ones(3, np.float32), np.float32(1)) for _ in range(16)]
        >>> loader = EchoLoader(items, batch_size=4, factor=2)
        >>> data = echobuf.keras.EchoDataset(loader)
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> backup = echobuf.keras.BackupAndRestore(data, "backup", save_freq=2)
        >>> history = model.fit(data, epochs=2, callbacks=[backup], verbose=0)
        >>> model.optimizer.iterations.numpy().item()
        16
    """

    def __init__(
        self,
        data: EchoDataset,
        backup_dir: str | os.PathLike[str],
        save_freq: str | int = "epoch",
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
    ) -> None:
        if not isinstance(data, EchoDataset):
            raise OptionError(
                f"`data` is a {type(data).__name__}; it must be the EchoDataset that "
                "`fit` is given."
            )
        super().__init__(
            os.fspath(backup_dir), save_freq, double_checkpoint, delete_checkpoint
        )
        self._data = data
        self._path = os.path.join(os.fspath(backup_dir), _STATE_NAME)
        self._trained = self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore weights, and the position in the data."""
        super().on_train_begin(logs)
        if not os.path.exists(self._path):
            if os.path.exists(self._weights_path):
                raise StateError(
                    f"the backup in {os.path.dirname(self._path)!r} has weights, but "
                    "no position in the data, as one of Keras' own callback; remove "
                    "the folder, and begin anew."
                )
            return
        with open(self._path, encoding="utf-8") as file:
            kept = json.load(file)
        steps = self._steps()
        if kept["steps"] != steps:
            raise StateError(
                f"the backup in {self._path!r} has the data of step {kept['steps']} "
                f"and the weights of step {steps}; remove the folder, and begin anew."
            )
        self._data.load_state_dict(kept["data"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the epoch: Keras' callback counts from 0 after a restore."""
        super().on_epoch_begin(epoch, logs)
        self._epoch = self._current_epoch = epoch
        self._trained = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save, if it is time."""
        # The last of an epoch's `steps_per_execution` may be counted, but not there.
        self._trained = min(batch + 1, self._data.num_batches)
        if self._data.num_handed_out < self._trained:
            raise OptionError(
                "`data` is not the EchoDataset that `fit` reads; give the same one to "
                "both."
            )
        if self._trained == self._data.num_batches:  # Keras goes on in the next one
            self._current_epoch = self._epoch + 1
        super().on_train_batch_end(batch, logs)

    def _save_model(self) -> None:
        super()._save_model()
        kept = {"steps": self._steps(), "data": self._data.state_dict(self._trained)}
        temporary = f"{self._path}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(temporary, self._path)

    def _steps(self) -> int:
        return int(self.model.optimizer.iterations)
