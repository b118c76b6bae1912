"""Remedies for a dtype or a kind of tensor that cannot be stored.

Knows torch's tensors by their attributes, and does not import it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CARRIED = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
"""Dtypes of torch that NumPy lacks, and that the loaders of torch and JAX take."""


def name_of(dtype: np.dtype[Any]) -> str:
    """Return the dtype as messages have it: with its byte order, or its name."""
    return str(dtype) if dtype.kind == "V" else dtype.str


def to_convert(dtype: np.dtype[Any]) -> str:
    """Return what makes another array of one whose dtype a framework lacks."""
    if dtype.names is not None:
        return "Make a leaf of each field: `{name: x[name] for name in x.dtype.names}`."
    if dtype.kind in "Mm":
        return (
            "Make numbers of it: `x.astype(np.int64)`, which counts its units, or "
            "`x.view(np.int64)` of an array."
        )
    if not dtype.isnative:
        return (
            "Give it the machine's byte order: `x.astype(x.dtype.newbyteorder('='))`."
        )
    if dtype.name in CARRIED:
        return (
            "Yield a tensor of torch's with this dtype, or convert it: "
            "`x.astype(np.float32)`."
        )
    if dtype.kind == "c":
        return "Convert it: `x.astype(np.complex128)`."
    return "Convert it: `x.astype(np.float64)`, or another dtype that it fits."


def of_tensor(tensor: Any) -> str:
    """Return what makes a tensor that can be read of one that cannot."""
    try:
        return _of_tensor(tensor)
    except Exception:  # subclasses answer what they like
        return _PLAIN


_PLAIN = "Yield plain dense tensors on the CPU."
_PAD_NESTED = (
    "It is ragged: pad it, `x.to_padded_tensor(padding=0)`, or yield its parts as "
    "examples."
)
_HAS_NO_DATA = "It has no data: make it on the CPU, outside of `FakeTensorMode`."


def _of_tensor(tensor: Any) -> str:
    kind = type(tensor).__name__
    if tensor.device.type == "meta" or kind == "FakeTensor":
        return _HAS_NO_DATA
    if kind == "MaskedTensor":
        return "Fill what is masked: `x.to_tensor(0)`, and make the mask a leaf, too."
    if tensor.is_nested:
        return _PAD_NESTED
    needed = {
        ".detach()": tensor.requires_grad,
        ".to_dense()": "strided" not in str(tensor.layout),
        ".dequantize()": tensor.is_quantized,
        ".cpu()": tensor.device.type != "cpu",
        ".resolve_conj()": tensor.is_conj(),
        ".resolve_neg()": tensor.is_neg(),
    }
    calls = "".join(call for call, is_needed in needed.items() if is_needed)
    if calls:
        return f"Yield dense tensors on the CPU: `x{calls}`."
    return _of_dtype(str(tensor.dtype).removeprefix("torch.")) or (
        _PLAIN if kind == "Tensor" else "Yield `x.as_subclass(torch.Tensor)`."
    )


def _of_dtype(name: str) -> str:
    if name in CARRIED:
        return (
            f"{name} needs `echobuf.torch.EchoLoader` or `echobuf.jax.EchoLoader`; or "
            "convert it: `x.float()`."
        )
    if name in _CONVERTED:
        return f"NumPy has no {name}: convert it, `x.to(torch.{_CONVERTED[name]})`."
    if name.startswith("float4"):
        return f"NumPy has no {name}: yield its bytes, `x.view(torch.uint8)`."
    return ""


_CONVERTED = {
    "complex32": "complex64",
    "bcomplex32": "complex64",
    **{f"{sign}int{bits}": "int8" for sign in ("", "u") for bits in range(1, 8)},
}
