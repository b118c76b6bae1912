"""`EchoLoader` for JAX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from echobuf.buffer import EchoBuffer
from echobuf.cuda.opening import is_simulated
from echobuf.errors import EchobufError, SpecError
from echobuf.jax import arrays, nodes, sharded
from echobuf.jax.places import Place, find_place
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.loader.source import yields_batches
from echobuf.side_host import HostSide


class EchoLoader(_EchoLoader):
    """Echoes what an iterable yields, in batches of `jax.Array`s.

    Items are pytrees as JAX sees them: what is registered with it (dataclasses, modules
    of Equinox and Flax) comes back in batches. Numbers of 64 bits become 32 where JAX
    has these disabled, as everywhere in JAX.

    On the CPU the arrays of a batch share the memory that it was drawn into, which is
    used again once JAX has let go of all of them; JAX's computations may still run
    when they are dropped, deleted or donated. On a CUDA device they are copies in
    JAX's own memory, ordered after the draw; nothing waits for them.

    Args:
        upstream: an iterable of examples or of batches, or a
            `torch.utils.data.DataLoader`.
        device: "cpu", "cuda", "cuda:N", or a `jax.Device` of this process.
        sharding: makes global arrays of the batches of all processes
            (`jax.make_array_from_process_local_data`): a `jax.sharding.Sharding`, or a
            pytree of them that is a prefix of a batch. Each process has a loader of its
            own, over its share of the examples; `batch_size` is what one process
            brings.
        arguments: those of `echobuf.EchoLoader`.

    Raises:
        OptionError: an argument is out of range.
        DeviceError: JAX has no such device.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        device: Any = "cpu",
        sharding: Any = None,
        **arguments: Any,
    ) -> None:
        self._place: Place = find_place(device, sharding)
        self._sharded = sharding is not None
        super().__init__(upstream, device=self._place.buffer_device, **arguments)

    def _default_batched(self) -> bool:
        return yields_batches(self._upstream.iterable)

    def _read_first(self, item: Any) -> Any:
        nodes.learn(item)
        return item

    def _make_buffer(self, first: Any) -> EchoBuffer:
        buffer = super()._make_buffer(first)
        try:
            _check_dtypes(buffer)
            self._use_arrays(buffer)
        except EchobufError:
            buffer._core.release()  # though the error may keep hold of it
            raise
        return buffer

    def _use_arrays(self, buffer: EchoBuffer) -> None:
        side, target = buffer._side, self._place.target
        if self._sharded:
            assert isinstance(side, HostSide)
            lead = () if buffer._options.ragged else (buffer._options.batch_size,)
            side.use_tensors(sharded.over(target, buffer._made.drawn, lead))
        elif isinstance(side, HostSide):
            if side.core.exportable():
                side.use_exported(arrays.from_exported(target))
            else:
                side.use_tensors(arrays.from_numpy(target))
        elif is_simulated():
            side.use_converted(arrays.copies_of_numpy(None))
        else:
            side.use_converted(arrays.FromCupy())
        if buffer._afterwards is not None:
            buffer._afterwards.use_dtypes(arrays.canonical)


def _check_dtypes(buffer: EchoBuffer) -> None:
    spec = buffer._made.spec
    for field, path in zip(spec.fields, spec.paths, strict=True):
        try:
            arrays.canonical(field.dtype)
        except TypeError as error:
            raise SpecError(
                f"`example{path}` has dtype {field.dtype.str}, which JAX does not "
                f"have: {str(error).rstrip('.')}. Convert it upstream with `.astype`."
            ) from None
