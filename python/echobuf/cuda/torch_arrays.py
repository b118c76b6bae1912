"""Batches as tensors that torch's caching allocator owns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from echobuf import _core
from echobuf.cuda.arrays import DeviceArrays, Shapes
from echobuf.cuda.device import device_error, relaxed
from echobuf.errors import DeviceError
from echobuf.spec import Spec

_LEGACY = (0, 1)  # handles of the stream that torch calls the default one


class TorchArrays(DeviceArrays):
    """`Arrays` of torch on a CUDA device.

    Args:
        device: the core's.
        ordinal: its number.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
        dtypes: of the leaves; None where it is the spec's.

    Raises:
        DeviceError: this torch has no CUDA.
    """

    def __init__(
        self,
        device: _core.Device,
        ordinal: int,
        spec: Spec,
        lead: tuple[int, ...],
        dtypes: list[torch.dtype | None],
    ) -> None:
        if not torch.cuda.is_available():
            raise DeviceError(
                f"`device` is 'cuda:{ordinal}', but this torch ({torch.__version__}) "
                "cannot use CUDA: install one that can (https://pytorch.org), or use "
                "`echobuf.EchoLoader`, which yields CuPy arrays."
            )
        super().__init__(ordinal, spec, lead)
        self._core = device
        self._device = torch.device("cuda", ordinal)
        self._torch_dtypes = [
            dtype or getattr(torch, field.dtype.name)
            for field, dtype in zip(spec.fields, dtypes, strict=True)
        ]

    def current(self, leaves: Sequence[Any] = ()) -> int:
        """Return the handle of torch's current stream."""
        return int(torch.cuda.current_stream(self._device).cuda_stream)

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return new tensors, allocated on the stream that uses them."""
        shapes = self._shapes if shapes is None else shapes
        current = torch.cuda.current_stream(self._device).cuda_stream
        if stream == current:
            leaves = self._make(shapes)
        else:
            with self._on(stream):
                leaves = self._make(shapes)
        return leaves, [leaf.data_ptr() for leaf in leaves]

    def _on(self, stream: int) -> AbstractContextManager[None]:
        if stream in _LEGACY:  # torch would take a stream of its pool for handle 0
            return torch.cuda.stream(torch.cuda.default_stream(self._device))
        external = torch.cuda.ExternalStream(stream, self._device)  # type: ignore[no-untyped-call]
        return torch.cuda.stream(external)

    def _make(self, shapes: Shapes) -> list[torch.Tensor]:
        try:
            with relaxed(self._core):  # torch's pool may grow
                return [
                    torch.empty(shape, dtype=dtype, device=self._device)
                    for shape, dtype in zip(shapes, self._torch_dtypes, strict=True)
                ]
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        except RuntimeError as error:  # the device is lost
            name = f"cuda:{self._ordinal}"
            raise device_error(name, str(error)) from error

    def copy_rows(
        self, targets: list[Any], sources: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows of tensors and arrays, in the order of the stream."""
        with self._on(stream), relaxed(self._core):  # torch may load a kernel
            for target, source, count in zip(targets, sources, counts, strict=True):
                tensor = torch.as_tensor(target, device=self._device)
                tensor[:count] = torch.as_tensor(source, device=self._device)[:count]
