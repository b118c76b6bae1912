"""The line to add, for each kind of leaf and of upstream that has one.

Those of libraries stand in the library's own test, too; here are the others, and types
that only look like those of a library that is not installed.
"""

import collections
import functools
import types

import numpy as np
import pytest

import echobuf
from helpers import stable_id

KWARGS = {"batch_size": 1, "window": 4, "factor": 1}


def like(module, name, bases=(), **methods):
    """An object of a type that is called as one of a library."""
    return type(name, bases, {"__module__": module, **methods})()


TENSOR_DICT = like("tensordict._td", "TensorDictBase")
FRAMES = [like(f"{name}.frame", "DataFrame") for name in ("pandas", "polars")]

LEAVES = [
    ("text", "Encode it as numbers"),
    (b"bytes", "Decode it"),
    (bytearray(3), "Decode it"),
    (memoryview(b"abc"), "Decode it"),
    (np.array(["text"]), "Encode it as numbers"),
    (np.array([b"bytes"]), "encode them as numbers"),
    (np.array([[1, 2], [3]], object), r"np\.pad"),
    (np.array([np.zeros(2), np.zeros(3)], object), r"as a list, `list\(x\)`"),
    (like("torch_geometric.data.data", "BaseData"), r"data\.edge_index\.T"),
    (np.array(["text", 1], object), "Encode it as numbers"),
    (np.array([None]), "store an index"),
    (np.array([], object), "store an index"),
    (TENSOR_DICT, r"\.to_dict\(\)"),
    *((frame, r"frame\[name\]\.to_numpy\(\)") for frame in FRAMES),
    (like("xarray.core.dataset", "Dataset"), r"x\[name\]\.values for name in x"),
    (object(), "Convert it to a NumPy array"),
]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("leaf", "line"), LEAVES, ids=stable_id)
def test_a_leaf_that_is_no_array(leaf, line, batched):
    loader = echobuf.EchoLoader([{"a": leaf}], batched=batched, **KWARGS)
    what = "batch" if batched else "example"
    with pytest.raises(echobuf.SpecError, match=rf"`{what}\['a'\]`.*{line}"):
        list(loader)


MIXED = {"name": "a", "none": None, "set": {1}, "url": "b", "at": ["c"]}


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("framework", ["echobuf", "echobuf.torch"])
@pytest.mark.parametrize("payload_bytes", [None, 999])
@pytest.mark.parametrize("arrays", [{}, {"x": np.ones((2, 3))}])
def test_all_leaves_at_fault_are_named(framework, payload_bytes, batched, arrays):
    item = {**arrays, **MIXED}
    maker = pytest.importorskip(framework)
    arguments = {**KWARGS, "payload_bytes": payload_bytes, "batched": batched}
    with pytest.raises(echobuf.SpecError) as caught:
        list(maker.EchoLoader([item] * 4, **arguments, carry=not arrays))
    said, what = str(caught.value), "batch" if batched else "example"
    for key in MIXED:
        assert said.count(f"`{what}['{key}']") == 1
    for line in ("Encode it", "Fill in a number", "A set has no order"):
        assert said.count(line) == 1
    assert f"At fault, too: `{what}['" in said
    assert "['x']" not in said
    why = "leaves that are no arrays: say carry=True," if arrays else "no array"
    assert said.startswith(f"the first `{what}` of upstream has {why}")


def test_no_name_is_left_out_however_many_there_are():
    item = {"x": 1.0, **{f"name{number}": "a" for number in range(40)}}
    with pytest.raises(echobuf.SpecError) as caught:
        list(echobuf.EchoLoader([item], **KWARGS, carry=False))
    assert all(
        f"`example['name{number}']`" in str(caught.value) for number in range(40)
    )


def test_all_leaves_of_a_later_item_and_of_a_long_list_are_named():
    first = {"a": 1.0, "b": np.zeros(3), "c": np.zeros(2)}
    item = {"a": "text", "b": np.zeros(4), "c": np.zeros(4)}
    with pytest.raises(echobuf.ItemError, match=r"`example\['a'\]` is of type str"):
        list(echobuf.EchoLoader([first, item], **KWARGS))
    with pytest.raises(echobuf.ItemError, match=r"At fault, too: `example\['c'\]`\."):
        list(echobuf.EchoLoader([first, item], **KWARGS))
    items = [{"x": np.zeros(64), "names": ["a"] * 64, "urls": ["b"] * 64}]
    loader = echobuf.EchoLoader(items, batched=True, carry=False, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=r"names'\]\[:\]`, `batch\['urls'\]\[:"):
        list(loader)


@pytest.mark.parametrize("beside", [3, np.arange])
def test_another_axis_than_the_first_that_varies(beside):
    items = [
        {"mel": np.zeros((4, n)), "ids": beside if beside == 3 else beside(n)}
        for n in range(2, 6)
    ]
    ragged = {} if beside == 3 else {"payload_bytes": 4000}
    line = r"`example\['mel'\]` has shape \[4, 3\].*`np\.moveaxis\(x, 1, 0\)`"
    with pytest.raises(echobuf.ItemError, match=line):
        list(echobuf.EchoLoader(items, **{**KWARGS, **ragged}))


@pytest.mark.parametrize("unit", ["example", "batch"])
@pytest.mark.parametrize("payload_bytes", [None, 999])
def test_a_first_batch_that_is_none(unit, payload_bytes):
    size = {"batch_size": 1} if unit == "example" else {"batch_size": None}
    arguments = {**KWARGS, **size, "unit": unit, "payload_bytes": payload_bytes}
    loader = echobuf.EchoLoader([None, np.zeros((1, 3))], batched=True, **arguments)
    with pytest.raises(echobuf.SpecError) as caught:
        iter(loader)
    assert "`batch`, the first item of upstream, is None" in str(caught.value)
    assert "`collate_fn`" in str(caught.value)
    assert "Field" not in str(caught.value)


def test_a_buffer_says_what_takes_more_than_arrays():
    for spec in ({"a": 1.0, "b": "text"}, {"b": object()}):
        with pytest.raises(echobuf.SpecError, match=r"^an `EchoBuffer` takes .* `spec"):
            echobuf.EchoBuffer(spec, **KWARGS)
    with echobuf.EchoBuffer({"a": 1.0}, **KWARGS) as buffer:
        for bad in ("text", None, object()):
            with pytest.raises(
                echobuf.SpecError, match="`EchoBuffer` takes arrays alone"
            ):
                buffer.put({"a": bad})


def test_a_buffer_says_it_too():
    spec = {"a": echobuf.Field(2, np.int64)}
    with echobuf.EchoBuffer(spec, **KWARGS) as buffer:
        for bad, line in [
            ("text", r"`example\['a'\]`.*Encode it as numbers"),
            (None, r"`example\['a'\]`.*Fill in a number"),
            (np.zeros(3, np.int64), r"`example\['a'\]` has shape.*np\.pad"),
            ([1, 2], r"`example\['a'\]` is of type list.*np\.asarray"),
        ]:
            with pytest.raises(echobuf.SpecError, match=line):
                buffer.put({"a": bad})


def test_scipy_and_torch_tensors():
    sparse = pytest.importorskip("scipy.sparse")
    torch = pytest.importorskip("torch")
    for leaf, line in [
        (sparse.csr_matrix(np.eye(3)), r"\.toarray\(\)"),
        (sparse.coo_array(np.eye(3)), r"\.toarray\(\)"),
        (torch.eye(3).to_sparse(), r"\.to_dense\(\)"),
        (torch.ones(2, requires_grad=True), r"\.detach\(\)"),
        (torch.ones(2, dtype=torch.bfloat16), r"`echobuf\.torch\.EchoLoader`"),
    ]:
        with pytest.raises(echobuf.SpecError, match=rf"`example`.*{line}"):
            list(echobuf.EchoLoader([leaf], **KWARGS))


def test_torch_s_loader_says_it_too():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    for leaf, line in [
        (torch.eye(3).to_sparse(), r"Yield dense tensors.*`x\.to_dense\(\)`"),
        (torch.empty(2, device="meta"), "It has no data"),
    ]:
        with pytest.raises(echobuf.SpecError, match=rf"`example`.*{line}"):
            list(echobuf.torch.EchoLoader([leaf], **KWARGS))


def table(module, name, *protocols):
    """A table of two columns, which NumPy and `iter` know nothing of."""
    methods = {name: lambda self: None for name in protocols}
    return like(module, name, __iter__=lambda self: iter("ab"), **methods)


UPSTREAMS = [
    ({"a": 1}, "yields its keys"),
    (collections.defaultdict(int), "yields its keys"),
    (types.MappingProxyType({"a": np.zeros(3)}), r"`\[dict\(upstream\)\]`"),
    (FRAMES[0], r"upstream\.to_dict\('records'\)"),
    (FRAMES[1], r"upstream\.to_dicts\(\)"),
    (like("polars.lazyframe.frame", "LazyFrame"), r"upstream\.collect\(\)"),
    *(
        (like("pyarrow.lib", name), "`__iter__` makes arrays of its batches")
        for name in ("Table", "RecordBatch", "RecordBatchReader")
    ),
    (table("ours", "Table", "__dataframe__"), "the array of each column"),
    (table("ours", "Table", "__arrow_c_stream__"), "the array of each column"),
    (like("scipy.sparse._csr", "sparray", __iter__=None), r"row\.toarray\(\)\[0\]"),
    (TENSOR_DICT, r"row\.to_dict\(\) for row in upstream"),
    (like("xarray.core.dataset", "Dataset", __iter__=0), r"ds\.isel\(time=slice"),
    (like("dask.dataframe", "DataFrame", __iter__=0), r"part\.compute\(\)"),
    (like("zarr.core.group", "Group", __iter__=0), "yields its keys"),
    (like("tensorstore", "TensorStore", __getitem__=0), r"read\(\)\.result\(\)"),
    (3, "must be an iterable"),
]


@pytest.mark.parametrize("kind", ["echobuf", "echobuf.torch", "echobuf.jax", "analyze"])
@pytest.mark.parametrize(("upstream", "line"), UPSTREAMS, ids=stable_id)
def test_an_upstream_that_yields_no_examples(upstream, line, kind):
    if kind == "analyze":
        call = functools.partial(echobuf.analyze, step=print, batch_size=1)
    else:
        call = functools.partial(pytest.importorskip(kind).EchoLoader, **KWARGS)
    with pytest.raises(echobuf.OptionError, match=f"`upstream`.*{line}"):
        call(upstream)
    with pytest.raises(echobuf.OptionError, match=f"`upstream`.*{line}"):
        echobuf.EchoLoader(upstream, num_workers=1, **KWARGS)


@pytest.mark.parametrize(
    "table",
    [
        table("datasets.arrow_dataset", "Dataset", "__arrow_c_stream__"),
        like("polars.series", "Series", __arrow_c_stream__=0, __iter__=0, dtype=0),
    ],
)
def test_tables_that_yield_rows_and_columns_of_numbers_are_taken(table):
    echobuf.EchoLoader(table, **KWARGS)


@pytest.mark.parametrize("columns", [dict, types.MappingProxyType])
def test_a_dict_of_columns_as_the_message_says(columns):
    upstream = columns({"a": np.arange(12), "b": np.arange(12) * 10})
    arguments = {"batch_size": 3, "window": 6, "factor": 1}
    for batch in echobuf.EchoLoader([dict(upstream)], batched=True, **arguments):
        assert (batch["a"] * 10 == batch["b"]).all()


def test_lists_of_examples_are_no_batch():
    items = [[{"x": np.zeros(2), "id": 1}] * 3]
    loader = echobuf.EchoLoader(items, batched=True, **KWARGS)
    with pytest.raises(echobuf.SpecError, match="A list of examples is no batch"):
        list(loader)


@pytest.mark.parametrize("first", [[], {"x": []}, {"x": [[], []]}])
def test_a_first_item_of_empty_lists_is_refused(first):
    loader = echobuf.EchoLoader([first], **KWARGS)
    with pytest.raises(echobuf.SpecError, match=r"`example.*is a list.*np\.asarray"):
        list(loader)


@pytest.mark.parametrize("name", ["torch", "JAX"])
def test_all_leaves_of_dtypes_that_a_framework_lacks_are_named(name):
    make = pytest.importorskip(f"echobuf.{name.lower()}").EchoLoader
    item = {"a": np.zeros(2, ">f4"), "b": np.zeros(3, ">f4"), "c": 1.0}
    with pytest.raises(echobuf.SpecError) as caught:
        list(make([item | {"d": np.zeros(2, "M8[s]")}], **KWARGS))
    said = str(caught.value)
    assert f"`example['a']` has dtype >f4, which {name} does not have" in said
    assert "`example['d']` has dtype <M8[s]" in said
    assert "At fault, too: `example['b']`." in said
    assert "['c']" not in said


def test_all_tensors_of_another_dtype_are_named():
    torch = pytest.importorskip("torch")
    make = pytest.importorskip("echobuf.torch").EchoLoader
    dtypes = {"a": torch.bfloat16, "b": torch.float64, "c": torch.float32}
    first = {name: torch.zeros(2) for name in dtypes}
    item = {name: torch.zeros(2, dtype=dtype) for name, dtype in dtypes.items()}
    with pytest.raises(echobuf.ItemError) as caught:
        list(make([first, item], **KWARGS))
    said = "`example['a']` has dtype torch.bfloat16; in the first item it is torch.fl"
    assert said in str(caught.value)
    assert "At fault, too: `example['b']`." in str(caught.value)


@pytest.mark.parametrize("batched", [False, True])
def test_items_of_lengths_that_vary_have_a_recipe(batched):
    items = [np.zeros((2, length)[not batched :]) for length in (3, 4)]
    with pytest.raises(echobuf.ItemError) as caught:
        list(echobuf.EchoLoader(items, batched=batched, **KWARGS))
    said = str(caught.value)
    for line in ("`np.pad(", "`payload_bytes=`"):
        assert line in said
    more = (
        ("`collate_fn=list`", "`ragged='packed'` where") if batched else ("(None, *",)
    )
    for line in more:
        assert line in said


def test_a_data_loader_that_cannot_stack_has_a_recipe():
    torch = pytest.importorskip("torch")
    items = [torch.zeros(length + 1) for length in range(8)]
    upstream = torch.utils.data.DataLoader(items, 2)
    with pytest.raises(echobuf.UpstreamError, match="`collate_fn=list` of the DataLoa"):
        list(echobuf.EchoLoader(upstream, window=4, factor=1))


Point = collections.namedtuple("Point", "x y")
Other = collections.namedtuple("Other", "x y")


class Subclass(dict):
    pass


@pytest.mark.parametrize(
    ("first", "item", "line"),
    [
        (Point(1, 2), Other(1, 2), "`example` is of type Other; the spec says Point"),
        ({"a": Point(1, 2)}, {"a": (1, 2)}, r"`example\['a'\]` is of type tuple; the"),
        (Subclass(x=1), {"x": 1}, "`example` is of type dict; the spec says Subclass"),
        ({"x": 1}, Subclass(x=1), "`example` is of type Subclass; the spec says dict"),
        ({"x": 1, "y": 2}, {"x": 1}, r"`example` lacks the entries \['y'\]\."),
        ({"x": [1]}, {"x": [1, 2]}, r"`example\['x'\]` has \[1\] beside them\."),
    ],
)
def test_another_structure_in_the_stream_is_said_in_words(first, item, line):
    with pytest.raises(echobuf.ItemError, match=f"than `spec`: {line}"):
        list(echobuf.EchoLoader([first, item], **KWARGS))
    buffer = echobuf.EchoBuffer(first, **KWARGS)
    with pytest.raises(echobuf.SpecError, match=f"than `spec`: {line}"):
        buffer.put(item)
