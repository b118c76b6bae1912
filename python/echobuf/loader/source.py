"""Kinds of upstreams: a DataLoader, batches of Ray, a dataset and an order of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from echobuf import hints
from echobuf.arguments import as_int
from echobuf.errors import OptionError, UpstreamError, show
from echobuf.hints import Kind, find, kinds_of

_END = object()


def check_iterable(upstream: Any) -> None:
    """Refuse what cannot be iterated, or yields names in place of examples."""
    line = to_iterate(upstream)
    iterable = hasattr(upstream, "__iter__") or hasattr(upstream, "__getitem__")
    if line or not iterable:
        raise OptionError(
            f"`upstream` is a {type(upstream).__name__}; it must be an iterable of "
            f"examples or of batches. {line}".rstrip()
        )


def as_data_loader(upstream: Any) -> Any:
    """Return the upstream if it is a torch DataLoader, else None; import nothing."""
    module = sys.modules.get("torch.utils.data")
    if module is not None and isinstance(upstream, module.DataLoader):
        return upstream
    return None


def yields_batches(upstream: Any) -> bool:
    """Return True for a torch DataLoader that makes batches, or Ray's data."""
    if isinstance(upstream, RayBatches):
        return True
    loader = as_data_loader(upstream)
    return loader is not None and (
        loader.batch_size is not None or batch_sampler_of(loader) is not None
    )


def batch_sampler_of(loader: Any) -> Any:
    """Return what yields the indices of each batch of a torch DataLoader, if any.

    With `batch_size=None` a sampler may do so: the dataset is then given whole lists.
    """
    if loader.batch_sampler is not None:
        return loader.batch_sampler
    has_size = isinstance(getattr(loader.sampler, "batch_size", None), int)
    return loader.sampler if has_size else None


def loader_batch_size(upstream: Any) -> int | None:
    """Return the batch size that a torch DataLoader was made with, if any."""
    loader = as_data_loader(upstream)
    if loader is None:
        return None
    size = loader.batch_size
    if size is None:
        size = getattr(batch_sampler_of(loader), "batch_size", None)
    return size if isinstance(size, int) else None


def has_own_collate(upstream: Any) -> bool:
    """Return True for a torch DataLoader that may make any number of examples."""
    loader = as_data_loader(upstream)
    if loader is None:
        return False
    from torch.utils.data import default_collate, default_convert

    return loader.collate_fn not in (default_collate, default_convert)


def begins_anew(upstream: Any) -> bool:
    """Return True if each `iter` begins an epoch, even with the same iterator."""
    nodes = sys.modules.get("torchdata.nodes")
    restarts = nodes is not None and isinstance(upstream, nodes.Loader)
    return restarts or as_data_loader(upstream) is not None


def is_one_shot(items: Iterator[Any]) -> bool:
    """Return True for an iterator of Python's own: a generator, a `map`, a file.

    Of the others some begin anew in `__iter__`, and go on after their end.
    """
    return type(items).__module__.partition(".")[0] in sys.stdlib_module_names


_BATCH_SIZE = 256  # Ray's own


class RayBatches:
    """The batches of a `Dataset` or a `DataIterator`, read anew in each epoch.

    Args:
        data: has `iter_batches`, and is no iterable itself.
        batch_size: examples in each batch but the last.
    """

    def __init__(self, data: Any, batch_size: int) -> None:
        self._data = data
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Any]:
        batches = self._data.iter_batches(
            batch_size=self._batch_size, batch_format="numpy"
        )
        return iter(batches)


def as_batches(
    upstream: Any, *, batch_size: Any, batched: Any, overlap_epochs: Any = False
) -> Any:
    """Return the batches of what is Ray's; anything else as it is.

    Args:
        upstream: as for `EchoLoader`, like the others.
        batch_size: those of Ray have as many examples; 256 by default.
        batched: not False, where `upstream` is Ray's.
        overlap_epochs: not with one of several shards.

    Raises:
        OptionError: the others do not go with Ray's.
    """
    if not is_ray_s(upstream):
        return upstream
    kind = type(upstream).__name__
    if batched is False:
        raise OptionError(
            f"`batched` is False, but `upstream` is a {kind} of Ray, which is read in "
            "batches; leave `batched` out."
        )
    if overlap_epochs and hints.is_of(upstream, "ray", "StreamSplitDataIterator"):
        raise OptionError(
            "`overlap_epochs` is True, but `upstream` is one of several shards, all of "
            "which Ray begins together: a trainer that begins early would wait for "
            "the others, and they for its step. Leave `overlap_epochs` out."
        )
    is_size = isinstance(batch_size, int) and batch_size > 0  # else refused elsewhere
    return RayBatches(upstream, batch_size if is_size else _BATCH_SIZE)


def is_ray_s(upstream: Any) -> bool:
    """Return True for a `ray.data.Dataset` or a `ray.data.DataIterator`."""
    return any(hints.is_of(upstream, "ray", n) for n in ("Dataset", "DataIterator"))


class Order:
    """Indices for worker processes to make examples of: what a loader iterates.

    Args:
        dataset: has `__getitem__` and `__len__`.
        sampler: an iterable of indices, anew in each epoch; None for all in order.

    Raises:
        OptionError: they are no such things.
    """

    def __init__(self, dataset: Any, sampler: Any) -> None:
        if as_data_loader(dataset) is not None:
            raise OptionError(
                "`upstream` is a DataLoader, which has workers of its own; with "
                "`num_workers` pass its dataset, and its sampler as `sampler=`."
            )
        if isinstance(dataset, RayBatches):
            raise OptionError(
                "`upstream` is data of Ray, which has workers of its own and gives no "
                "examples by number: leave `num_workers` and `sampler` out."
            )
        if _is_iterable_dataset(dataset):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__}, an IterableDataset: it has "
                "no examples by number, for `num_workers` and `sampler`. Pass a "
                "DataLoader of it, with workers of its own."
            )
        if not hasattr(dataset, "__getitem__"):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__}; with `num_workers` or "
                "`sampler` it must be a map-style dataset, with `__getitem__` and "
                "`__len__`: workers make examples by their indices."
            )
        if sampler is None and not hasattr(dataset, "__len__"):
            raise OptionError(
                f"`upstream` is a {type(dataset).__name__} without `__len__`; give "
                "`sampler=`, an iterable of the indices to read."
            )
        if sampler is not None and not hasattr(sampler, "__iter__"):
            raise OptionError(
                f"`sampler` is a {type(sampler).__name__}; it must be an iterable of "
                "indices."
            )
        self.dataset = dataset
        self.sampler = sampler
        self._is_begun = False

    def __iter__(self) -> Iterator[int]:
        if self.sampler is None:
            return iter(range(len(self.dataset)))
        indices = iter(self.sampler)
        if indices is not self.sampler:
            return map(_index, indices)
        return self._iterate_itself(indices)  # a generator, an iterator

    def _iterate_itself(self, indices: Iterator[Any]) -> Iterator[int]:
        """Yield what is left of the sampler; its `iter` may begin it anew."""
        is_again, self._is_begun = self._is_begun, True
        is_used_up = is_again and is_one_shot(indices)
        index = _END if is_used_up else next(indices, _END)
        if is_again and index is _END:
            raise UpstreamError(
                f"`sampler` is a {type(indices).__name__}, which gives one epoch only "
                "and has been used. For more epochs pass an object whose `__iter__` "
                "begins anew, such as a list or a torch sampler."
            )
        while index is not _END:
            yield _index(index)
            index = next(indices, _END)

    def __len__(self) -> int:
        return len(self.dataset if self.sampler is None else self.sampler)


def _is_iterable_dataset(dataset: Any) -> bool:
    """Return True for torch's, without importing it: its `__getitem__` only raises."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(dataset, data.IterableDataset)


def is_map_style(upstream: Any) -> bool:
    """Return True for a dataset with a length that is read by index alone.

    Iterated, it would be read until it raises IndexError, which it need not.
    """
    return hasattr(upstream, "__len__") and not hasattr(upstream, "__iter__")


class Sampled:
    """The examples of an order, made on the thread that iterates."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def __iter__(self) -> Iterator[Any]:
        dataset = self.order.dataset
        return (dataset[index] for index in self.order)

    def __len__(self) -> int:
        return len(self.order)


def _index(value: Any) -> int:
    index = as_int(value)
    if index is None:
        raise OptionError(
            f"`sampler` yielded {show(value)}; it must yield ints, the indices of "
            "examples."
        )
    if not -(2**63) <= index < 2**63:
        raise OptionError(f"`sampler` yielded {show(index)}, which is no 64-bit index.")
    return index


# ---- what to pass in place of a table, a mapping, a lazy array

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
