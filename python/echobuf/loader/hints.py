"""Hints about upstreams: what to pass in place of a table, a mapping, a lazy array.

Knows libraries by the names of their types, as `echobuf.hints`, and imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echobuf.hints import Kind, find, kinds_of

_ARROW_UPSTREAM = (
    "Pass an object whose `__iter__` makes arrays of its batches: "
    "`for batch in {}: yield {{name: batch[name].to_numpy(zero_copy_only=False) for "
    "name in batch.schema.names}}`, with batched=True."
)
_COLUMNS_UPSTREAM = (
    "It yields columns in place of rows; pass its rows, `upstream.{rows}`, or all of "
    "them as one batch of arrays, `[{{name: upstream[name].to_numpy() for name in "
    "upstream.columns}}]`, with batched=True and `batch_size=`."
)
_TABLE_UPSTREAM = (
    "It is a table, which yields columns or chunks in place of rows; pass all rows as "
    "one batch, a dict with the array of each column: `[{name: array}]`, with "
    "batched=True and `batch_size=`."
)
_LAZY_TABLE_UPSTREAM = (
    "It yields columns, which are not computed yet; pass an object whose `__iter__` "
    "makes arrays of its partitions: `for part in upstream.partitions: frame = "
    "part.compute(); yield {name: frame[name].to_numpy() for name in frame}`, with "
    "batched=True."
)
_MAPPING_UPSTREAM = (
    "It yields its keys; pass one of its values. Where these are columns of a table, "
    "pass all rows as one batch, `[dict(upstream)]`, with batched=True and "
    "`batch_size=`."
)
_SPARSE_UPSTREAM = (
    "Its rows are sparse: pass `upstream.toarray()`, or an object whose `__iter__` "
    "makes rows dense as they are needed, `(row.toarray()[0] for row in upstream)`."
)
_XARRAY_UPSTREAM = (
    "It yields the names of its variables; pass an object whose `__iter__` makes "
    "arrays of slices: `for i in range(0, n, 64): part = ds.isel(time=slice(i, i + "
    "64)); yield {name: part[name].values for name in part}`, with batched=True."
)
_LAZY_UPSTREAM = (
    "It has views that are not read yet; pass an object whose `__iter__` reads them: "
    "`for i in range(0, len(x), 64): yield x[i : i + 64].read().result()`, with "
    "batched=True."
)
_UPSTREAMS: dict[Kind, str] = {
    ("dask", "DataFrame"): _LAZY_TABLE_UPSTREAM,
    ("dask_expr", "DataFrame"): _LAZY_TABLE_UPSTREAM,
    ("datasets", "DatasetDict"): "It yields names; pass a split: `upstream['train']`.",
    ("datasets", "IterableDatasetDict"): (
        "It yields names; pass a split: `upstream['train']`."
    ),
    ("pandas", "DataFrame"): _COLUMNS_UPSTREAM.format(rows="to_dict('records')"),
    ("polars", "DataFrame"): _COLUMNS_UPSTREAM.format(rows="to_dicts()"),
    ("polars", "LazyFrame"): (
        "It has no rows yet; pass those of what it makes, `upstream.collect().to_dicts"
        "()`, or batches of arrays of its columns, with batched=True."
    ),
    ("pyarrow", "Table"): _ARROW_UPSTREAM.format("upstream.to_batches()"),
    ("pyarrow", "RecordBatch"): _ARROW_UPSTREAM.format("[upstream]"),
    ("pyarrow", "RecordBatchReader"): _ARROW_UPSTREAM.format("make_reader()"),
    ("pyarrow", "ParquetFile"): _ARROW_UPSTREAM.format("upstream.iter_batches()"),
    ("pyarrow", "Dataset"): _ARROW_UPSTREAM.format("upstream.to_batches()"),
    ("pyarrow", "Scanner"): _ARROW_UPSTREAM.format("upstream.to_batches()"),
    ("scipy", "sparray"): _SPARSE_UPSTREAM,
    ("scipy", "spmatrix"): _SPARSE_UPSTREAM,
    ("tensordict", "TensorDictBase"): "Pass `[row.to_dict() for row in upstream]`.",
    ("tensorstore", "TensorStore"): _LAZY_UPSTREAM,
    ("xarray", "Dataset"): _XARRAY_UPSTREAM,
    ("zarr", "Group"): _MAPPING_UPSTREAM,
}
_OF_ROWS = ("datasets", "daft")  # their tables are iterated row by row
_OF_COLUMNS = ("dtype", "type")  # a column has one, and `__arrow_c_stream__`, too
_ONE_SHOT: dict[Kind, str] = {
    ("tensorflow", "NumpyIterator"): "Pass the `tf.data.Dataset` itself.",
    ("torchdata", "BaseNode"): "Wrap it: `torchdata.nodes.Loader(node)`.",
}


def to_iterate(upstream: Any) -> str:
    """Return how to make an iterable of examples of an object, or ""."""
    line = find(upstream, _UPSTREAMS)
    if line:
        return line
    if isinstance(upstream, Mapping):
        return _MAPPING_UPSTREAM
    kind = type(upstream)
    is_table = hasattr(kind, "__dataframe__") or (
        hasattr(kind, "__arrow_c_stream__")
        and not any(hasattr(kind, name) for name in _OF_COLUMNS)
    )
    by_rows = any(package in _OF_ROWS for package, _ in kinds_of(upstream))
    return _TABLE_UPSTREAM if is_table and not by_rows else ""


def to_repeat(upstream: Any) -> str:
    """Return how a library repeats its data for more epochs, or ""."""
    return find(upstream, _ONE_SHOT)
