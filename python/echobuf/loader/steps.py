"""Optimizer steps and epochs under echoing, for schedules of the learning rate."""

from __future__ import annotations

import itertools

from echobuf.arguments import check_bool, check_int
from echobuf.errors import OptionError
from echobuf.loader.loader import EchoLoader, LoaderInternals, internals_of


def schedule_steps(
    loader: EchoLoader,
    epochs: int,
    *,
    accumulate: int = 1,
    fresh: bool = False,
    first_epoch: int = 0,
) -> int:
    """Return the number of optimizer steps that epochs of a loader take.

    It is exact for every fixed factor: with a fractional one epochs differ in length,
    and those that will be trained are added up. A resumed run has the same schedule:
    the epochs are counted from `first_epoch`, whatever state the loader has.

    Echoing multiplies the steps of an epoch. A recipe made for N steps either takes
    `factor` times as many (give this number to the schedule), or keeps its N
    (`fresh=True`) and passes over fewer fresh examples (`schedule_epochs`).

    Args:
        loader: an `EchoLoader` of `echobuf`, `echobuf.torch`, `echobuf.jax` or
            `echobuf.accelerate`; with `uneven` the steps are those of all ranks.
        epochs: number of epochs.
        accumulate: batches that an optimizer step accumulates gradients of; the last
            step of an epoch may have fewer, as in Accelerate, Lightning and
            transformers.
        fresh: count the steps that the same epochs take without echoing, also with
            factor="auto"; on ranks these are the steps of this rank.
        first_epoch: number of the first epoch.

    Returns:
        The number of steps, for example `total_steps` of
        `torch.optim.lr_scheduler.OneCycleLR` or `T_max` of `CosineAnnealingLR`.

    Raises:
        OptionError: an argument is out of range, or `loader` is no `EchoLoader`.
        TypeError: the length of an epoch is not known: `length=` of the loader says
            how many examples upstream yields, and factor="auto" echoes as timing has
            it. For "auto" `loader.max_batches()` is an upper bound of an epoch.
        ClosedError: the loader was closed.
        UpstreamError: with `uneven`, another rank is gone.

    Examples:
        >>> loader = EchoLoader(range(1000), batch_size=32, window=320, factor=2.5)
        >>> echobuf.schedule_steps(loader, 10)
        790
        >>> echobuf.schedule_steps(loader, 10, fresh=True)  # without echoing
        320
    """
    internals = _check(loader)
    epochs = check_int("epochs", epochs, 0, None)
    accumulate = check_int("accumulate", accumulate, 1, None)
    first_epoch = check_int("first_epoch", first_epoch, 0, None)
    if check_bool("fresh", fresh):
        batches = internals.plan.fresh_length().count_batches(first_epoch)
        return epochs * -(-batches // accumulate)
    if _are_alike(internals):
        return epochs * -(-internals.count_batches(first_epoch) // accumulate)
    return sum(
        -(-internals.count_batches(number) // accumulate)
        for number in range(first_epoch, first_epoch + epochs)
    )


def schedule_epochs(
    loader: EchoLoader, steps: int, *, accumulate: int = 1, first_epoch: int = 0
) -> int:
    """Return the number of epochs of a loader that have at least so many steps.

    A training loop that runs for so many epochs and stops after `steps` has the number
    of optimizer steps that its recipe asks for, with fewer fresh examples than without
    echoing.

    Args:
        loader: as for `schedule_steps`.
        steps: number of optimizer steps.
        accumulate: batches that an optimizer step accumulates gradients of.
        first_epoch: number of the first epoch.

    Returns:
        The number of epochs. With factor="auto", where only timing decides how often
        an example is echoed, so many suffice even if none is.

    Raises:
        OptionError: an argument is out of range, `loader` is no `EchoLoader`, or its
            epochs have no batches.
        TypeError: upstream's length is not known; `length=` of the loader says it.
        ClosedError: the loader was closed.
        UpstreamError: with `uneven`, another rank is gone.

    Examples:
        >>> loader = EchoLoader(range(1000), batch_size=32, window=320, factor=2.5)
        >>> echobuf.schedule_epochs(loader, 320)
        5
    """
    internals = _check(loader)
    steps = check_int("steps", steps, 0, None)
    accumulate = check_int("accumulate", accumulate, 1, None)
    first_epoch = check_int("first_epoch", first_epoch, 0, None)
    if steps == 0:
        return 0
    echoes_at_will = internals.plan.options.ratio is None
    least = internals.plan.fresh_length().count_batches(first_epoch)
    if (least if echoes_at_will else loader.max_batches()) == 0:
        raise OptionError(
            f"`steps` is {steps}, but no epoch of `loader` is sure to have a batch; "
            "give `loader` more examples, or a smaller `batch_size`."
        )
    if echoes_at_will:
        return -(-steps // -(-least // accumulate))
    if _are_alike(internals):
        return -(-steps // -(-internals.count_batches(first_epoch) // accumulate))
    taken = 0
    for number in itertools.count(first_epoch):
        taken += -(-internals.count_batches(number) // accumulate)
        if taken >= steps:
            return number + 1 - first_epoch
    raise AssertionError


def _are_alike(internals: LoaderInternals) -> bool:
    """Return True if all epochs have the same length: those of a whole factor."""
    ratio = internals.plan.options.ratio
    return ratio is not None and ratio[1] == 1


def _check(loader: EchoLoader) -> LoaderInternals:
    if not isinstance(loader, EchoLoader):
        raise OptionError(
            f"`loader` is a {type(loader).__name__}; it must be an EchoLoader. A "
            "buffer does not know how many examples will be put: multiply by `factor` "
            "what you put."
        )
    return internals_of(loader)
