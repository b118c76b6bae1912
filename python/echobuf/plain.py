"""Values of Python, NumPy and torch as JSON, exactly, and back; nothing is pickled."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

_TAG = "echobuf-type"

Keep = Callable[[Any], Any]
"""Takes contiguous bytes, and gives what JSON is to hold of them."""
Take = Callable[[Any], Any]
"""The reverse; what it gives may be changed and kept, or is of type `bytes`."""


_MOST_LEVELS = 100
"""Of containers in one another. Reading takes some frames of the stack for each."""


class NotPlainError(TypeError):
    """A value that cannot be kept."""


def to_text(data: Any) -> str:
    """Encode bytes as text."""
    return base64.b64encode(data).decode()


def from_text(text: str) -> bytes:
    """Return the reverse of `to_text`."""
    return base64.b64decode(text, validate=True)


def encode(value: Any, name: str = "state", keep: Keep = to_text) -> Any:
    """Return a value in the form that JSON holds; the two share nothing mutable.

    Args:
        value: of None, numbers, strings, bytes, lists, tuples, dicts, sets, arrays and
            CPU tensors.
        name: what it is called in an error.
        keep: where bytes go.
    """
    try:
        return _encode(value, name, keep)
    except RecursionError:  # the caller is near the limit already
        raise NotPlainError(f"`{name}` is nested too deeply for what calls") from None


def _encode(value: Any, name: str, keep: Keep, level: int = 0) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if level >= _MOST_LEVELS and kind in _CONTAINERS:
        raise NotPlainError(
            f"`{_short(name)}` is nested more than {_MOST_LEVELS} levels deep, or "
            "holds itself"
        )
    if kind is list:
        return _encode_all(value, name, keep, level)
    if kind is dict and all(type(key) is str for key in value) and _TAG not in value:
        return {
            key: _encode(each, f"{name}[{key!r}]", keep, level + 1)
            for key, each in value.items()
        }
    return _tagged(*_encode_other(value, name, keep, level))


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, "value": value}


_CONTAINERS = (list, tuple, dict, OrderedDict, set, frozenset)


def _short(name: str, most: int = 40) -> str:
    return name if len(name) <= most else name[:most] + "..."


def _encode_all(values: Any, name: str, keep: Keep, level: int) -> list[Any]:
    return [
        _encode(each, f"{name}[{i}]", keep, level + 1) for i, each in enumerate(values)
    ]


def _encode_other(value: Any, name: str, keep: Keep, level: int) -> tuple[str, Any]:
    kind = type(value)
    if kind is tuple:
        return "tuple", _encode_all(value, name, keep, level)
    if kind is dict or kind is OrderedDict:
        # A pair of a key and a value is no level of the caller's.
        return kind.__name__, [
            _tagged("tuple", _encode_all(pair, f"{name}[{i}]", keep, level))
            for i, pair in enumerate(value.items())
        ]
    if kind is set or kind is frozenset:
        encoded = _encode_all(value, name, keep, level)
        return kind.__name__, sorted(encoded, key=json.dumps)
    if kind is bytes or kind is bytearray:
        return kind.__name__, keep(value)
    if kind is np.ndarray or isinstance(value, np.generic):
        return _encode_array(value, name, keep)
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return _encode_tensor(value, name, keep)
    raise NotPlainError(f"`{name}` is of type {kind.__module__}.{kind.__qualname__}")


def _encode_array(value: Any, name: str, keep: Keep) -> tuple[str, Any]:
    if value.dtype.hasobject or value.dtype.kind == "V":
        raise NotPlainError(f"`{name}` has dtype {value.dtype}")
    kind = "array" if type(value) is np.ndarray else "scalar"
    data = keep(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    return kind, [value.dtype.str, list(value.shape), data]


def _encode_tensor(value: Any, name: str, keep: Keep) -> tuple[str, Any]:
    import torch

    if value.device.type != "cpu" or value.layout != torch.strided:
        raise NotPlainError(f"`{name}` is a tensor on {value.device}, {value.layout}")
    if value.is_quantized:  # its numbers mean nothing without its scale
        raise NotPlainError(f"`{name}` is a quantized tensor, {value.dtype}")
    flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy() if flat.numel() else b""
    dtype = str(value.dtype).removeprefix("torch.")
    return "tensor", [dtype, list(value.shape), keep(data)]


def decode(value: Any, take: Take = from_text) -> Any:
    """Return the value that `encode` was given."""
    try:
        return _decode(value, take)
    except (TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _decode(value: Any, take: Take) -> Any:
    if isinstance(value, list):
        return [_decode(each, take) for each in value]
    if not isinstance(value, dict):
        return value
    if _TAG in value:
        return _DECODERS[value[_TAG]](value["value"], take)
    return {key: _decode(each, take) for key, each in value.items()}


def _decode_array(parts: list[Any], take: Take) -> Any:
    dtype, shape, data = parts
    array = np.frombuffer(take(data), np.dtype(dtype)).reshape(shape)
    return array if array.flags.writeable else array.copy()


def _decode_tensor(parts: list[Any], take: Take) -> Any:
    import torch

    name, shape, data = parts
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    taken = take(data)
    if not len(taken):
        return torch.empty(shape, dtype=dtype)
    if isinstance(taken, bytes):
        taken = bytearray(taken)
    return torch.frombuffer(taken, dtype=dtype).reshape(shape)


_DECODERS: dict[str, Callable[[Any, Take], Any]] = {
    "float": lambda text, take: float(text),
    "tuple": lambda values, take: tuple(_decode(values, take)),
    "dict": lambda pairs, take: dict(_decode(pairs, take)),
    "OrderedDict": lambda pairs, take: OrderedDict(_decode(pairs, take)),
    "set": lambda values, take: set(_decode(values, take)),
    "frozenset": lambda values, take: frozenset(_decode(values, take)),
    "bytes": lambda data, take: bytes(take(data)),
    "bytearray": lambda data, take: bytearray(take(data)),
    "array": _decode_array,
    "scalar": lambda parts, take: _decode_array(parts, take)[()],
    "tensor": _decode_tensor,
}
