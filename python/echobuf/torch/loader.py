"""`EchoLoader` for torch, on one rank or on several that train together."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

from echobuf import state
from echobuf.arguments import LOADER, TORCH, Factor, Unit
from echobuf.errors import OptionError
from echobuf.loader.items import Adapter
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.loader.ragged import RaggedRequest
from echobuf.loader.signature import documented
from echobuf.options import check_each, check_nested, takes_options
from echobuf.state import State
from echobuf.torch.adapter import TorchAdapter, as_packed
from echobuf.workers.settings import Context

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from echobuf.loader.epoch import EpochIterator
    from echobuf.ranks.coordinator import RankCoordinator


class SamplerStandIn:
    """A stand-in for the batch sampler of a DataLoader.

    Trainers call `loader.batch_sampler.sampler.set_epoch` before each epoch, which is
    the loader's. There is nothing to sample from: native code draws the batches.
    """

    def __init__(self, set_epoch: Callable[[int], None]) -> None:
        self._set_epoch = set_epoch

    @property
    def sampler(self) -> SamplerStandIn:
        """Itself: one schedule decides on batches and their order."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the loader."""
        self._set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        """Refuse to be iterated, by a DataLoader that was made of a loader's parts.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "a DataLoader was made of the attributes of an `EchoLoader` "
            "(`accelerate.skip_first_batches` does so), which echoes nothing. Use the "
            "loader itself; to go on in the middle of an epoch, call "
            "`load_state_dict(state)` with what `state_dict()` of it returned."
        )


@documented
class EchoLoader(_EchoLoader):
    """A loader that echoes an iterable or a DataLoader, in batches of tensors.

    A `torch.utils.data.DataLoader` that makes batches is taken as it is: `batched` is
    True, and `batch_size` that of the DataLoader, by default. `dataset`, `sampler`,
    `num_workers`, `batch_size` and `drop_last` can be read as from a DataLoader.

    On the CPU the tensors of a batch share the memory that the batch was drawn into; it
    stays valid as long as one of them lives, and is the caller's to change. On a CUDA
    device they come from torch's caching allocator, and are drawn on torch's current
    stream. So there is no `pin_memory` here, and nothing to copy with `non_blocking`:
    with `device="cuda"` examples are uploaded once, from pinned memory, while earlier
    batches are drawn, and batches are on the device already. Leave `pin_memory` of a
    wrapped DataLoader out, too.

    Under `torch.distributed` each rank has a loader of its own over its shard. Where
    every step needs all ranks (`DistributedDataParallel`), say `uneven`: then they
    agree on how many batches an epoch has, and a rank that fails is named to the rest.

    Args:
        upstream: an iterable, or a DataLoader.
        device: where the window is, and the tensors of batches: "cpu", "cuda" (the
            current device), "cuda:N", or such a `torch.device`.
        ragged: the form of ragged leaves in batches: "packed" (the default) for
            `echobuf.Ragged`, "padded" for `echobuf.Padded`. Which leaves are ragged is
            seen from the first items; or it is said, in a pytree like an example with
            the form at ragged leaves and None at the others. In torch also "nested":
            nested tensors with the layout `torch.jagged`, over the same memory.
        uneven: "drop": an epoch ends on all ranks with the one that ends first, and
            what the others have left is not served; "pad": with the one that ends last,
            and the others serve copies of their last batch. None: ranks know nothing of
            each other.
        group: the process group of the ranks; by default all of them.
        ahead: with `uneven`, batches that a rank draws ahead of those handed out.

    Raises:
        OptionError: an argument is out of range, or there is no process group.
        DeviceError: the device cannot be used.

    Examples:
        >>> import torch
        >>> import echobuf.torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> data = TensorDataset(torch.rand(64, 3), torch.arange(64))
        >>> upstream = DataLoader(data, batch_size=16, shuffle=True)
        >>> loader = echobuf.torch.EchoLoader(upstream, window=32, factor=2)
        >>> len(loader), len(loader.dataset), loader.batch_size
        (8, 64, 16)
        >>> x, y = next(iter(loader))
        >>> x.shape, y.dtype
        (torch.Size([16, 3]), torch.int64)
    """

    @takes_options(TORCH)
    def __init__(  # noqa: PLR0913 - what users may say of a loader
        self,
        upstream: Iterable[Any],
        *,
        batch_size: int | None = None,
        window: int | None = None,
        factor: Factor = "auto",
        max_factor: int = 8,
        unit: Unit = "example",
        batched: bool | None = None,
        length: int | None = None,
        overlap_epochs: bool = False,
        carry: bool = True,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        in_order: bool = True,
        multiprocessing_context: Context = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        device: str | torch.device = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
        payload_bytes: int | None = None,
        ragged: Any = None,
        pad_value: Any = 0,
        pad_to: int | None = None,
        max_rows: int | None = None,
        pack_to: int | None = None,
        overlong: Literal["error", "cut"] = "error",
        with_info: bool = False,
        uneven: Literal["drop", "pad"] | None = None,
        group: ProcessGroup | None = None,
        ahead: int = 4,
    ) -> None: ...

    def _set_up(self, upstream: Iterable[Any], **arguments: Any) -> None:
        of_ranks = check_each(arguments, TORCH, beside=LOADER)
        uneven, group = of_ranks["uneven"], of_ranks["group"]
        if group is not None and uneven is None:
            raise OptionError(
                "`group` is given, but `uneven` is not, without which ranks know "
                "nothing of each other: say uneven='drop' or uneven='pad'."
            )
        if uneven is not None and arguments["in_order"] is False:
            raise OptionError(
                f"`uneven` is {uneven!r} and `in_order` is False; a state of several "
                "ranks does not hold what has entered on each. Leave one of them out."
            )
        request = RaggedRequest(arguments["ragged"])
        self._nested = request.form == "nested"
        if self._nested:
            check_nested(**arguments)
            arguments["ragged"] = as_packed(request)
        self._ranks: RankCoordinator | None = None
        super()._set_up(upstream, **arguments)
        if uneven is not None:
            from echobuf.ranks.coordinator import RankCoordinator

            self._ranks = RankCoordinator(group, uneven, of_ranks["ahead"])
            self._write_length()

    @property
    def batch_sampler(self) -> SamplerStandIn:
        """An object whose `sampler.set_epoch`, which trainers call, is the loader's.

        Examples:
            >>> import echobuf.torch
            >>> loader = echobuf.torch.EchoLoader(range(4), batch_size=4, factor=1)
            >>> loader.batch_sampler.sampler.set_epoch(3)
            >>> loader.state_dict()["epoch"]
            3
        """
        return SamplerStandIn(self.set_epoch)

    def _adapter(self) -> Adapter:
        return TorchAdapter(nested=self._nested)

    # ---- ranks

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch.

        With `uneven` the first batch waits for all ranks, and raises what is wrong:
        `OptionError` where they have different arguments or are in different epochs,
        `StateError` where they have loaded states of different batches,
        `UpstreamError` where another one could not begin.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory.
            ClosedError: the loader was closed.
        """
        self._check_open()
        if self._ranks is None:
            return super().__iter__()
        from echobuf.ranks.agreement import LoaderCallbacks

        try:
            epoch = cast("EpochIterator", super().__iter__())
        except BaseException as error:
            self._ranks.cannot_begin(error)
            raise
        callbacks = LoaderCallbacks(
            arguments=self._plan.sealed,
            write_length=weakref.WeakMethod(self._write_length),
            take_back=weakref.WeakMethod(self._epochs.take_back),
            end_epoch=weakref.WeakMethod(self._end_on_all_ranks),
        )
        return self._ranks.iterate(epoch, callbacks)

    def _end_current(self) -> None:
        if self._ranks is not None:
            self._ranks.supersede()
        super()._end_current()

    def _see_first_batch(self) -> None:
        if self._ranks is None:  # else an epoch begins with the other ranks
            super()._see_first_batch()

    def _served_out(self) -> None:
        if self._ranks is None:  # else the other ranks have a say
            super()._served_out()

    def __len__(self) -> int:
        """Return the number of batches in an epoch; with `uneven` that of all ranks.

        That is the epoch that is running: one whose iterator is there, and not at its
        end. Otherwise it is the epoch that the next `iter` begins. With a fractional
        `factor` epochs differ by at most the batches of a segment
        (`window // ceil(factor)` examples), since other examples get the extra use in
        each; with an integer one all epochs have the same number. A resumed epoch
        counts as a whole.

        With `uneven` it is the same on all ranks that are in the same epoch, and waits
        until all have made a loader.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
            ClosedError: the loader was closed.
            UpstreamError: with `uneven`, another rank is gone.
        """
        return super().__len__()

    def _count_batches(self, epoch: int) -> int:
        if self._ranks is None:
            return super()._count_batches(epoch)
        return self._ranks.count_batches(epoch)

    def max_batches(self) -> int:
        """Return the most batches that an epoch can have, for learning-rate schedules.

        With "auto" no example is served more than `max_factor` times, so n of them give
        at most `n * max_factor` draws; an epoch whose upstream is slow enough has as
        many. With an integer factor it is `len(loader)`, with a fractional one at most
        a segment (window / ceil(factor) examples) more. With `uneven` it is the same on
        all ranks.

        Raises:
            TypeError: upstream's length is not known; `length=` says it.
            ClosedError: the loader was closed.

        Examples:
            >>> import echobuf.torch
            >>> loader = echobuf.torch.EchoLoader(range(100), batch_size=10, factor=2.5)
            >>> len(loader), loader.max_batches()
            (30, 30)
        """
        self._check_open()
        return (
            super().max_batches() if self._ranks is None else self._ranks.max_batches()
        )

    def __bool__(self) -> bool:
        """Return False where the length is known to be 0; never raises, nor waits."""
        return self._ranks is not None or super().__bool__()

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batches handed out so far, as a dict for JSON.

        With `uneven` it says where all ranks were: the state of one rank will do for
        all, if it is taken after a step that they take together.

        Examples:
            >>> import json
            >>> import echobuf.torch
            >>> loader = echobuf.torch.EchoLoader(
            ...     range(8), batch_size=2, window=4, factor=2
            ... )
            >>> batch = next(iter(loader))
            >>> json.loads(json.dumps(loader.state_dict())) == loader.state_dict()
            True
        """
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue, at the next `iter`, at the position of a loader of equal arguments.

        A state that was taken on as many ranks is continued exactly; each rank loads
        its own, or all load the same one. With another number of ranks all load the
        same one, and begin at the first example that one of them still needed: nothing
        is lost, some are served again, and a warning says how many. That takes shards
        to be every n-th example, as those of torch's DistributedSampler are.

        Raises:
            StateError: the state is damaged, of other arguments, or does not say where
                this rank was.

        Examples:
            >>> import echobuf.torch
            >>> def make():
            ...     return echobuf.torch.EchoLoader(
            ...         range(8), batch_size=2, window=4, factor=2
            ...     )
            >>> batches = iter(loader := make())
            >>> first, state = next(batches), loader.state_dict()
            >>> resumed = make()
            >>> resumed.load_state_dict(state)
            >>> rest = [batch.tolist() for batch in resumed]
            >>> rest == [batch.tolist() for batch in batches]
            True
        """
        super().load_state_dict(state_dict)

    def _position(self) -> State:
        epochs = self._epochs
        if self._ranks is None or epochs.resume is not None:
            return super()._position()
        if epochs.begun is not None:  # and no batch was drawn
            return epochs.begun.resume or state.start_of(epochs.begun.number)
        at = None if epochs.is_between else self._ranks.position()
        return state.start_of(epochs.next_number) if at is None else at

    def _seal(self, arguments: State, position: State) -> State:
        more = {} if self._ranks is None else {"ranks": position.get("ranks")}
        return state.seal(arguments, position, **more)

    def _unseal(self, sealed: Any) -> State:
        if self._ranks is not None:
            return self._ranks.unseal(sealed, self._plan.sealed())
        if isinstance(sealed, dict) and sealed.get("ranks"):
            from echobuf.ranks.states import unseal_without_ranks

            return unseal_without_ranks(sealed, self._plan.sealed())
        return super()._unseal(sealed)

    def _write_length(self) -> None:
        assert self._ranks is not None
        self._ranks.write_length(self._plan.epoch_length, super().max_batches)

    def _end_on_all_ranks(self) -> None:
        """End the epoch whose last batch all ranks have handed out."""
        self._epochs.served_out()
