"""`echobuf.transformers`: echoing in Hugging Face's `Trainer`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers.trainer
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from echobuf.errors import OptionError, StateError
from echobuf.loader.loader import internals_of
from echobuf.torch import EchoLoader

__all__ = ["EchoTrainer", "EchoTrainerMixin"]

_WORKERS = (
    "num_workers",
    "in_order",
    "multiprocessing_context",
    "worker_init_fn",
    "max_restarts",
)
_DECIDED = {"upstream", "batched", "batch_size", "length", "sampler", *_WORKERS}


class _TrainerLoader(EchoLoader):
    """A loader that has the epochs that `Trainer` counts.

    `Trainer` asks for the length once. With a fractional factor it is told the length
    of the shortest epoch, and longer ones are cut, so that schedules end with the last
    step.
    Where it is not known `Trainer` goes on in its epoch 0 after a resume, whatever the
    number of the loader's epoch is.
    """

    def _set_up(self, upstream: Any, **arguments: Any) -> None:
        super()._set_up(upstream, **arguments)
        self._seed = arguments["seed"]
        self._shift: int | None = 0  # None: until the next `set_epoch`

    def __len__(self) -> int:
        """Return the number of batches that every epoch has."""
        super().__len__()  # raises where the length is not known
        return internals_of(self).plan.epoch_length().count_least()

    def has_length(self) -> bool:
        try:
            return len(self) >= 0
        except TypeError:
            return False

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._shift = 0 if self.has_length() else None

    def set_epoch(self, epoch: int) -> None:
        if self._shift is None:
            self._shift = self.state_dict()["epoch"] - epoch
        number = epoch + self._shift
        internals = internals_of(self)
        # `Trainer` stops at the last batch, not at the end. A sampler of Accelerate's
        # counts its epoch up when it is iterated to the end, on the feeder's thread.
        internals.end_epoch()
        _seed_sampler(internals.upstream, self._seed + number)
        super().set_epoch(number)


def _seed_sampler(upstream: Any, seed: int) -> None:
    """Seed a sampler that depends on torch's global generator, as by-length ones do.

    Its order then depends on the epoch alone, and is the same after a resume.
    """
    batch_sampler = upstream.batch_sampler
    inner = getattr(batch_sampler, "batch_sampler", batch_sampler)
    sampler: Any = getattr(inner, "sampler", None)
    if hasattr(sampler, "generator") and not hasattr(sampler, "set_epoch"):
        generator = torch.Generator()
        generator.manual_seed(seed)
        sampler.generator = generator


class _PlainBatches:
    """A collator whose batches are dicts, which pickles with the one it wraps."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate

    def __call__(self, examples: Any) -> Any:
        batch = self._collate(examples)
        return dict(batch) if isinstance(batch, Mapping) else batch


class _KeepLoaderState(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Keeps the loader's state in the `trainer_state.json` of each checkpoint."""

    def __init__(self) -> None:
        self._loader: _TrainerLoader | None = None
        self.position: dict[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        if self._loader is not None:
            self.position = self._loader.state_dict()
        return {"args": {}, "attributes": {"position": self.position}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        loader = more["train_dataloader"]
        if not isinstance(loader, _TrainerLoader):
            warnings.warn(
                f"`get_train_dataloader` gives a {type(loader).__name__} in place of "
                "the EchoLoader of EchoTrainerMixin, so `echo` has no effect. Put the "
                "method in a base class after the mixin, which echoes what it gives.",
                stacklevel=2,
            )
            return
        self._loader = loader
        if state.global_step == 0:
            return
        kept = state.stateful_callbacks.get(type(self).__name__)
        position = None if kept is None else kept["attributes"]["position"]
        if position is None:
            raise StateError(
                "`resume_from_checkpoint` names a checkpoint without the state of an "
                "EchoLoader; go on from one that an EchoTrainer has saved, or train "
                "on with a plain Trainer."
            )
        loader.load_state_dict(position)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.state()
        self._loader = None


class EchoTrainerMixin:
    """A mixin that echoes the training data of a `transformers.Trainer`.

    It comes before the trainer among the bases: `class Mine(EchoTrainerMixin,
    Seq2SeqTrainer)`. Training reads through an `echobuf.torch.EchoLoader`, around the
    DataLoader that the trainer would have used: its collator, workers, sampler and, on
    several processes, share. Evaluation and prediction are as before.

    - An epoch serves each fresh example `factor` times, so `num_train_epochs` takes
      `factor` times the steps, and the schedule is made for them. With `max_steps` the
      steps are those, and fewer fresh examples are read. `max_steps` is needed with
      factor="auto", and where the length of the dataset is not known.
    - A checkpoint has the state of the loader: `resume_from_checkpoint` goes on with
      the batch that would have come next. `ignore_data_skip` must be False.
    - A collator must pad to one length (`padding="max_length"`), since examples of
      several batches meet in one.

    Args:
        echo: arguments of `echobuf.torch.EchoLoader`: `window`, `factor`, `transform`,
            `device`, ... `seed` is `args.data_seed` or `args.seed` by default, and
            `drop_last` is `args.dataloader_drop_last`.

    Raises:
        OptionError: `echo` is no mapping, or has an argument that the trainer decides
            or that is none of `EchoLoader`; when training begins: an argument is out
            of range.

    Examples:
        >>> import torch
        >>> from transformers import Trainer, TrainingArguments
        >>> from echobuf.transformers import EchoTrainerMixin
        >>> class Model(torch.nn.Linear):
        ...     def forward(self, x, labels):
        ...         return {"loss": ((super().forward(x) - labels) ** 2).mean()}
        >>> data = [{"x": torch.ones(2), "labels": torch.ones(1)} for _ in range(16)]
        >>> args = TrainingArguments(
        ...     "checkpoints",
        ...     per_device_train_batch_size=4,
        ...     num_train_epochs=1,
        ...     use_cpu=True,
        ...     report_to=[],
        ... )
        >>> class Mine(EchoTrainerMixin, Trainer):
        ...     pass
        >>> trainer = Mine(
        ...     Model(2, 1), args, train_dataset=data, echo={"window": 8, "factor": 2}
        ... )
        >>> len(trainer.get_train_dataloader())
        8
    """

    def __init__(
        self, *args: Any, echo: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._echo = _check_echo(echo)
        super().__init__(*args, **kwargs)
        trainer: Any = self
        trainer.add_callback(_KeepLoaderState())

    def get_train_dataloader(self) -> EchoLoader:
        """Return the loader that training reads.

        Raises:
            OptionError: an argument is out of range, or this trainer cannot echo.
            DeviceError: the device cannot be used.
        """
        trainer: Any = self
        args = trainer.args
        if args.ignore_data_skip:
            raise OptionError(
                "`ignore_data_skip` is True; it must be False: a resumed loader reads "
                "what it needs, and `Trainer` counts its steps only then."
            )
        prepared: Any = super().get_train_dataloader()  # type: ignore[misc]
        upstream, size, batches = _share_of(prepared, args.world_size)
        upstream.collate_fn = _PlainBatches(upstream.collate_fn)
        upstream.pin_memory = False  # batches are copied into the window
        arguments = {
            "seed": args.seed if args.data_seed is None else args.data_seed,
            "drop_last": args.dataloader_drop_last,
            "batch_size": size,
            "length": None if batches is None else batches * size,
            **self._echo,
        }
        if arguments.get("unit") == "batch":
            arguments |= {"batch_size": None, "length": batches}
        return _TrainerLoader(upstream, **arguments)


class EchoTrainer(EchoTrainerMixin, Trainer):  # type: ignore[misc]
    """A `transformers.Trainer` that echoes its training data.

    It takes the arguments of `Trainer` and one more.

    Args:
        echo: arguments of `echobuf.torch.EchoLoader`, as for `EchoTrainerMixin`.

    Raises:
        OptionError: as `EchoTrainerMixin`.

    Examples:
        >>> import torch
        >>> from transformers import ProgressCallback, TrainingArguments
        >>> from echobuf.transformers import EchoTrainer
        >>> class Model(torch.nn.Linear):
        ...     def forward(self, x, labels):
        ...         return {"loss": ((super().forward(x) - labels) ** 2).mean()}
        >>> data = [{"x": torch.ones(2), "labels": torch.ones(1)} for _ in range(16)]
        >>> args = TrainingArguments(
        ...     "checkpoints",
        ...     per_device_train_batch_size=4,
        ...     num_train_epochs=1,
        ...     use_cpu=True,
        ...     report_to=[],
        ... )
        >>> trainer = EchoTrainer(
        ...     Model(2, 1), args, train_dataset=data, echo={"window": 8, "factor": 2}
        ... )
        >>> trainer.remove_callback(ProgressCallback)  # which prints
        >>> trainer.train().global_step  # 16 examples, twice, in batches of 4
        8
    """


def _check_echo(echo: Any) -> dict[str, Any]:
    if echo is None:
        return {}
    if not isinstance(echo, Mapping):
        raise OptionError(
            f"`echo` is {echo!r}; it must be a mapping of arguments of EchoLoader, "
            'such as {"window": 8192, "factor": 2}.'
        )
    parameters = inspect.signature(EchoLoader).parameters
    for name in echo:
        if name in _DECIDED:
            raise OptionError(
                f"`echo` has {name!r}, which follows from the trainer's arguments; "
                "leave it out."
            )
        if name not in parameters:
            allowed = ", ".join(each for each in parameters if each not in _DECIDED)
            raise OptionError(
                f"`echo` has {name!r}, which is no argument of EchoLoader; it may have "
                f"{allowed}."
            )
    if echo.get("with_info"):
        raise OptionError(
            "`echo` has 'with_info', and `Trainer` hands batches to the model as they "
            "are; leave it out, or use a loop of your own."
        )
    return dict(echo)


def _share_of(prepared: Any, ranks: int) -> tuple[DataLoader[Any], int, int | None]:
    """Return this process's DataLoader, its batch size and, for a share, its length.

    Accelerate's loader around it moves batches to the device, and reports its end as
    the end of an epoch.

    Raises:
        OptionError: one process reads for all.
    """
    upstream = getattr(prepared, "base_dataloader", prepared)
    if ranks > 1 and type(prepared).__name__ == "DataLoaderDispatcher":
        raise OptionError(
            "`dispatch_batches` is on, as it is for an IterableDataset: process 0 "
            "reads for all, but each has a window of its own. Give TrainingArguments "
            'accelerator_config={"dispatch_batches": False}.'
        )
    sampler = upstream.batch_sampler
    if not hasattr(sampler, "num_processes"):  # all that there is
        return upstream, upstream.batch_size or sampler.batch_size, None
    if not sampler.even_batches:
        raise OptionError(
            "`even_batches` is False; it must be True, so that processes have the "
            "same number of examples. Leave it out of `accelerator_config`."
        )
    size = sampler.batch_size
    if sampler.split_batches:
        size //= sampler.num_processes
    return upstream, size, len(sampler)


_skip_in_data_loaders = transformers.trainer.skip_first_batches


def _skip_first_batches(loader: Any, num_batches: int = 0) -> Any:
    """Leave loaders that have loaded a state as they are; skip in any other.

    `Trainer` calls it where it goes on in the middle of an epoch.
    """
    if isinstance(loader, _TrainerLoader):
        return loader
    return _skip_in_data_loaders(loader, num_batches)


transformers.trainer.skip_first_batches = _skip_first_batches
