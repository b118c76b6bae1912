"""Hints for error messages: remedies for what upstream yields in place of arrays.

Knows libraries by the names of their types, torch's tensors by their attributes, and
imports none of them. Called where an error is certain, or once for a loader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_STRING = "Encode it as numbers: a class index, or token ids padded to one length."
_BYTES = (
    "Decode it (webdataset: `.decode('rgb8')`; a file of an image: "
    "`np.asarray(Image.open(io.BytesIO(data)).convert('RGB'))`; numbers: "
    "`np.frombuffer(data, dtype)`); or keep it encoded, with `payload_bytes=` of a "
    "loader."
)
_FILL = "Fill in a number (-1, `np.nan`), in `.map` or `collate_fn`."
_LIST = "Make it one array: `np.asarray(x)`, padded to one length with `np.pad`."
_PAD = (
    "Examples have one shape: resize images, pad sequences with "
    "`np.pad(x, (0, length - len(x)))`."
)
_IMAGE = (
    "Examples have one shape: `np.asarray(image.convert('RGB').resize((width, "
    "height)))`."
)
_VARIES = (
    "Or let the length vary: `payload_bytes=` and `ragged='packed'` of a loader, "
    "`Field((None, *x.shape[1:]), x.dtype)` in the spec of a buffer."
)
_VARIES_IN_BATCH = (
    "Or let the length vary, with `payload_bytes=` of a loader: a DataLoader's "
    "`collate_fn=list` leaves examples as long as they are; or say which leaves are "
    "padded to the longest of their batch, `ragged={'tokens': 'packed', 'label': None}`"
    ", or `ragged='packed'` where a batch is one array."
)
_UNEQUAL = (
    "Examples have other shapes than each other: pad them to one in `collate_fn` "
    "(`np.pad`, `torch.nn.utils.rnn.pad_sequence`, or resize images); or keep their "
    "lengths, with `collate_fn=list` of the DataLoader and `payload_bytes=` of the "
    "EchoLoader."
)
_MOVES = (
    "Or let the length vary, on axis 0: `np.moveaxis(x, {axis}, 0)`, with "
    "`payload_bytes=` and `ragged='packed'` of a loader."
)
_NO_BATCH = (
    " A `collate_fn` that leaves no example has no batch to return: leave it out, in a "
    "class whose `__iter__` yields `(batch for batch in data_loader if batch is not "
    "None)`."
)
_ARROW_BATCH = (
    "Make arrays of its columns: `{name: batch[name].to_numpy(zero_copy_only=False) "
    "for name in batch.schema.names}`, with batched=True."
)
_ARROW_COLUMN = (
    "Columns of numbers become arrays with `.to_numpy(zero_copy_only=False)`, columns "
    "of lists of one length with `.flatten().to_numpy().reshape(len(column), -1)`."
)
_FRAME = (
    "Make arrays of its columns: `{name: frame[name].to_numpy() for name in "
    "frame.columns}`, with batched=True."
)
_ARRAYS = (
    "It holds arrays: pad them to one length with `np.pad`; or, of a batch, give them "
    "as a list, `list(x)`, with `payload_bytes=` of a loader."
)
_SCIPY = (
    "Make it dense: `.toarray()`; or, with `payload_bytes=` of a loader, give the "
    "numbers of an example that are not 0, and where: `{'values': x.data, 'columns': "
    "x.indices}` of a row in CSR."
)
_GRAPH = (
    "Make a dict of its arrays, with what varies in number on axis 0: `{'x': data.x, "
    "'edges': data.edge_index.T}`, with `payload_bytes=` of a loader."
)
_EAGER = (
    "A tensor of strings: decode it in `dataset.map`, as with `tf.io.decode_png` or "
    "`tf.strings.to_number`."
)
_RAGGED = "Pad it: `.to_tensor(shape=[length])` in `dataset.map`."
_SET = "A set has no order: `np.array(sorted(x))`, padded to one length with `np.pad`."
_SEQUENCE = "Make it an array: `np.array(list(x))`, padded to one length with `np.pad`."
_NUMBER = "Make a number of it: `float(x)`."
_TIME = "Make a number of it, such as `x.timestamp()`."
_CATEGORIES = (
    "Make numbers of strings: `.astype('category').cat.codes.to_numpy()` of a Series, "
    "`.codes` of a Categorical."
)
_TENSOR_DICT = "Make a dict of it: `.to_dict()`."

Kind = tuple[str, str]
"""The package and the name of a type, or of a base of it."""

_LEAVES: dict[Kind, str] = {
    ("builtins", "str"): _STRING,
    ("builtins", "bytes"): _BYTES,
    ("builtins", "bytearray"): _BYTES,
    ("builtins", "memoryview"): _BYTES,
    ("builtins", "NoneType"): _FILL,
    ("builtins", "list"): _LIST,
    ("builtins", "set"): _SET,
    ("builtins", "frozenset"): _SET,
    ("builtins", "range"): _SEQUENCE,
    ("builtins", "generator"): _SEQUENCE,
    ("builtins", "int"): "It has more than 64 bits: yield a smaller one, or several.",
    ("datetime", "datetime"): _TIME,
    ("datetime", "date"): "Make a number of it, such as `x.toordinal()`.",
    ("datetime", "timedelta"): "Make a number of it: `x.total_seconds()`.",
    ("decimal", "Decimal"): _NUMBER,
    ("enum", "Enum"): "Make a number of it: `list(type(x)).index(x)`.",
    ("fractions", "Fraction"): _NUMBER,
    ("jax", "PRNGKeyArray"): "Make an array of it: `jax.random.key_data(x)`.",
    ("pandas", "NAType"): _FILL,
    ("pandas", "Categorical"): _CATEGORIES,
    ("pandas", "Series"): _CATEGORIES,
    ("pathlib", "PurePath"): _STRING,
    ("pyarrow", "Array"): _ARROW_COLUMN,
    ("pyarrow", "ChunkedArray"): _ARROW_COLUMN,
    ("pyarrow", "Scalar"): "Make a number of it: `.as_py()`.",
    ("scipy", "sparray"): _SCIPY,
    ("scipy", "spmatrix"): _SCIPY,
    ("tensordict", "TensorDictBase"): _TENSOR_DICT,
    ("tensorflow", "Tensor"): _EAGER,
    ("tensorflow", "RaggedTensor"): _RAGGED,
    ("tensorflow", "SparseTensor"): "Make it dense: `tf.sparse.to_dense(x)`.",
    ("torch_geometric", "BaseData"): _GRAPH,
    ("torch", "Size"): "Make it one array: `np.array(x)`.",
}
_COLUMNS: dict[Kind, str] = {
    ("dask", "DataFrame"): _FRAME.replace("frame[", "frame.compute()["),
    ("pandas", "DataFrame"): _FRAME,
    ("polars", "DataFrame"): _FRAME,
    ("pyarrow", "RecordBatch"): _ARROW_BATCH,
    ("pyarrow", "Table"): _ARROW_BATCH.replace("batch[", "table[").replace(
        "batch.", "table."
    ),
    ("xarray", "Dataset"): "Make a dict of it: `{name: x[name].values for name in x}`.",
}


def to_store(leaf: Any) -> str:
    """Return how to make an array of a leaf, or ""."""
    if is_of(leaf, "numpy", "ndarray"):
        return _of_objects(leaf)
    if is_of(leaf, "torch", "Tensor"):
        return of_tensor(leaf)
    if is_tensorclass(type(leaf)):
        return _TENSOR_DICT
    return find(leaf, _LEAVES) or find(leaf, _COLUMNS)


def _of_objects(array: Any) -> str:
    """Return the hint for an array of objects or strings, by its first element."""
    element = array.flat[0] if array.size else None
    if element is None or not hasattr(element, "__len__"):
        return ""
    return find(element, _LEAVES) or (_ARRAYS if hasattr(element, "shape") else _PAD)


def of_columns(leaf: Any) -> str:
    """Return how to make arrays of a table, or "" for anything else.

    NumPy would read a table as one array, without names and of one dtype.
    """
    return find(leaf, _COLUMNS)


def holds_objects(leaf: Any) -> bool:
    """Return True for an array of pandas or TensorFlow that has texts or objects."""
    try:
        return leaf.dtype.name in ("object", "string", "str", "category")
    except Exception:  # of what has no dtype; torch's have no name
        return False


def to_fit(leaf: Any, *, varies: int | None = None, stacked: bool = False) -> str:
    """Return how to give all examples one shape.

    Args:
        leaf: of another shape than the first example's.
        varies: the only axis of an example on which its length differs; None for
            several.
        stacked: examples are stacked on axis 0.
    """
    line = _IMAGE if is_of(leaf, "PIL", "Image") else _PAD
    if stacked:
        line += " A DataLoader does so in its `collate_fn`."
    if varies is None:
        return line
    if varies:
        return f"{line} {_MOVES.format(axis=varies)}"
    return f"{line} {_VARIES_IN_BATCH if stacked else _VARIES}"


def of_failure(text: str) -> str:
    """Return what to do about an error of upstream's own, by its text, or ""."""
    return _UNEQUAL if "stack expects each tensor to be equal size" in text else ""


def of_nothing(item: Any, what: str) -> str:
    """Return what to do about an item without leaves, or ""."""
    return _NO_BATCH if item is None and what == "batch" else ""


def is_of(value: Any, package: str, name: str) -> bool:
    """Return True if a type, or a base of it, has this name in this package."""
    return (package, name) in kinds_of(value)


def is_tensorclass(kind: type) -> bool:
    """Return True for a class of tensordict's, a dataclass that is a tensor, too."""
    return hasattr(kind, "_is_tensorclass")


def find(value: Any, lines: Mapping[Kind, str]) -> str:
    """Return the line for a type, or a base of it, or ""."""
    return next((lines[kind] for kind in kinds_of(value) if kind in lines), "")


def kinds_of(value: Any) -> list[Kind]:
    """Return package and name of a type, and of each base of it."""
    bases = type(value).__mro__
    return [(str(base.__module__).partition(".")[0], base.__name__) for base in bases]


FOREIGN = (
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
    if dtype.name in FOREIGN:
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
PAD_NESTED = (
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
        return PAD_NESTED
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
    return of_dtype(str(tensor.dtype).removeprefix("torch.")) or (
        _PLAIN if kind == "Tensor" else "Yield `x.as_subclass(torch.Tensor)`."
    )


def of_dtype(name: str) -> str:
    """Return what to do about a dtype of torch's that NumPy lacks, or ""."""
    if name in FOREIGN:
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
