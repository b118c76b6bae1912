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


class NotPlainError(TypeError):
    """A value that cannot be kept."""


def encode(value: Any, name: str = "state") -> Any:
    """What JSON holds of a value; shares nothing with it that can be changed.

    Args:
        value: of None, numbers, strings, bytes, lists, tuples, dicts, sets, arrays and
            CPU tensors.
        name: what it is called in an error.

    Raises:
        NotPlainError: something in it is of another type.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if kind is list:
        return _encode_all(value, name)
    if kind is dict and all(type(key) is str for key in value) and _TAG not in value:
        return {key: encode(each, f"{name}[{key!r}]") for key, each in value.items()}
    return _tagged(*_encode_other(value, name))


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, "value": value}


def _encode_all(values: Any, name: str) -> list[Any]:
    return [encode(each, f"{name}[{i}]") for i, each in enumerate(values)]


def _encode_other(value: Any, name: str) -> tuple[str, Any]:
    kind = type(value)
    if kind is tuple:
        return "tuple", _encode_all(value, name)
    if kind is dict or kind is OrderedDict:
        return kind.__name__, _encode_all(value.items(), name)
    if kind is set or kind is frozenset:
        return kind.__name__, sorted(_encode_all(value, name), key=json.dumps)
    if kind is bytes or kind is bytearray:
        return kind.__name__, _to_text(value)
    if kind is np.ndarray or isinstance(value, np.generic):
        return _encode_array(value, name)
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return _encode_tensor(value, name)
    raise NotPlainError(f"`{name}` is of type {kind.__module__}.{kind.__qualname__}")


def _encode_array(value: Any, name: str) -> tuple[str, Any]:
    if value.dtype.hasobject or value.dtype.kind == "V":
        raise NotPlainError(f"`{name}` has dtype {value.dtype}")
    kind = "array" if type(value) is np.ndarray else "scalar"
    data = _to_text(np.ascontiguousarray(value).tobytes())
    return kind, [value.dtype.str, list(value.shape), data]


def _encode_tensor(value: Any, name: str) -> tuple[str, Any]:
    import torch

    if value.device.type != "cpu" or value.layout != torch.strided:
        raise NotPlainError(f"`{name}` is a tensor on {value.device}, {value.layout}")
    flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    dtype = str(value.dtype).removeprefix("torch.")
    return "tensor", [dtype, list(value.shape), _to_text(data)]


def decode(value: Any) -> Any:
    """The value that `encode` was given.

    Raises:
        ValueError: `encode` did not make this.
    """
    try:
        return _decode(value)
    except (TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if _TAG in value:
        return _DECODERS[value[_TAG]](value["value"])
    return {key: _decode(each) for key, each in value.items()}


def _decode_array(parts: list[Any]) -> Any:
    dtype, shape, data = parts
    return np.frombuffer(_to_bytes(data), np.dtype(dtype)).reshape(shape).copy()


def _decode_tensor(parts: list[Any]) -> Any:
    import torch

    name, shape, data = parts
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(_to_bytes(data)), dtype=dtype).reshape(shape)


def _to_text(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode()


def _to_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda values: tuple(_decode(values)),
    "dict": lambda pairs: dict(_decode(pairs)),
    "OrderedDict": lambda pairs: OrderedDict(_decode(pairs)),
    "set": lambda values: set(_decode(values)),
    "frozenset": lambda values: frozenset(_decode(values)),
    "bytes": _to_bytes,
    "bytearray": lambda text: bytearray(_to_bytes(text)),
    "array": _decode_array,
    "scalar": lambda parts: _decode_array(parts)[()],
    "tensor": _decode_tensor,
}
