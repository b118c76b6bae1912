"""Containers of the caller's: classes that look at what they hold, or are told of."""

import dataclasses
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest

import echobuf
import echobuf.serve
import echobuf.torch
import echobuf.transforms as t

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

COUNT = 12


class Looks:
    """Code of a class that wants arrays or tensors, and the rows of one example."""

    def __repr__(self):
        return f"{type(self).__name__} of {self.x.shape[0]}, {self.x.sum():.1f}"


def check(x):
    assert x.shape == (3,), "of one example"


@dataclasses.dataclass
class Checked(Looks):
    x: object
    y: object

    def __post_init__(self):
        check(self.x)
        self.mean = self.x.mean()

    __repr__ = Looks.__repr__


@dataclasses.dataclass(frozen=True)
class Frozen(Looks):
    x: object
    y: object

    __repr__ = Looks.__repr__

    def __post_init__(self):
        check(self.x)


class Pair(NamedTuple):
    x: object
    y: object

    __repr__ = Looks.__repr__


class CheckedPair(Pair):
    def __new__(cls, x, y):
        check(x)
        return super().__new__(cls, x, y)


class ByAttribute(dict):
    """As EasyDict, Munch and addict: any name is looked up, and may be a KeyError."""

    def __getattr__(self, name):
        return self[name]


class Keywords(dict):
    """A dict that is not made of a dict."""

    def __init__(self, *, x, y):
        super().__init__(x=x, y=y)


class Empty(dict):
    """A dict that forgets what it is made of."""

    def __init__(self, *entries, **named):
        super().__init__(**named)


class Images(dict):
    """As TorchIO's Subject, made only of what it knows."""

    def __init__(self, entries):
        check(entries["x"])
        super().__init__(entries)


class Config:
    """As ml_collections' ConfigDict: a mapping by its methods alone."""

    def __init__(self, entries):
        self._entries = dict(entries)

    def __getitem__(self, key):
        return self._entries[key]

    def __iter__(self):
        return iter(self._entries)

    def keys(self):
        return self._entries.keys()

    def values(self):
        return self._entries.values()

    def items(self):
        return self._entries.items()


class Encoding(UserDict):
    pass


class Factory(defaultdict):
    pass


class Rows(list):
    pass


class Star(list):
    def __init__(self, *elements):
        super().__init__(elements)


def by_name(kind):
    return lambda x, y: kind(x=x, y=y)


def of_dict(kind):
    return lambda x, y: kind({"y": y, "x": x})


def of_list(kind):
    return lambda x, y: kind([x, y])


# What makes an example, and the class of its batches
CONTAINERS = {
    "dataclass": (by_name(Checked), Checked),
    "frozen": (by_name(Frozen), Frozen),
    "named tuple": (by_name(Pair), Pair),
    "checked named tuple": (by_name(CheckedPair), CheckedPair),
    "attributes": (of_dict(ByAttribute), ByAttribute),
    "keywords": (by_name(Keywords), dict),
    "empty": (by_name(Empty), dict),
    "images": (of_dict(Images), dict),
    "config": (of_dict(Config), Config),
    "ordered": (of_dict(OrderedDict), OrderedDict),
    "UserDict": (of_dict(Encoding), Encoding),
    "ChainMap": (of_dict(ChainMap), ChainMap),
    "defaultdict": (lambda x, y: defaultdict(int, x=x, y=y), defaultdict),
    "defaultdict's": (lambda x, y: Factory(int, x=x, y=y), dict),
    "list's": (of_list(Rows), Rows),
    "list of arguments": (Star, list),
    "UserList": (of_list(UserList), UserList),
    "deque": (of_list(deque), deque),
}
ARGUMENTS = {"batch_size": 3, "window": 6, "factor": 2}


def parts_of(batch):
    if isinstance(batch, (list, UserList, deque)):
        return batch[0], batch[1]
    by_key = hasattr(type(batch), "keys")
    return (batch["x"], batch["y"]) if by_key else (batch.x, batch.y)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name, framework, nested):
    """At the top, and in a dict beside a ragged leaf that is looked for."""
    make, kind = CONTAINERS[name]
    torch = pytest.importorskip("torch") if framework == "torch" else None

    def example(number):
        x = np.full(3, number, np.float32)
        made = make(*(map(torch.from_numpy, (x, x[:1])) if torch else (x, x[:1])))
        return {"made": made, "n": np.arange(number % 3)} if nested else made

    arguments = {**ARGUMENTS, **({"payload_bytes": 999} if nested else {})}
    maker = echobuf.torch if torch else echobuf
    loader = maker.EchoLoader([*map(example, range(COUNT))], **arguments)
    numbers = []
    for batch in loader:
        made = batch["made"] if nested else batch
        assert type(made) is kind
        x, y = parts_of(made)
        assert x.shape == (3, 3)
        assert y.tolist() == x[:, :1].tolist()
        numbers += [int(each) for each in y[:, 0]]
    assert sorted(numbers) == sorted(2 * [*range(COUNT)])


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_in_messages_infos_and_whole_batches(name):
    make, kind = CONTAINERS[name]
    items = [{"made": make(np.full(3, i), np.ones(1)), "n": i} for i in range(COUNT)]
    chain = {"n": [t.ToDtype(np.float32)], "more": [t.Source("n")]}
    for arguments in (
        {**ARGUMENTS, "with_info": True, "transform": chain},
        {"unit": "batch", "window": 2, "factor": 2},
    ):
        if "unit" in arguments:
            items = [make(np.full(3, i), np.ones(3)) for i in range(COUNT)]
        loader = echobuf.EchoLoader(items, **arguments)
        batch = next(iter(loader))
        if "unit" not in arguments:
            batch, info = batch
            assert batch["more"].tolist() == batch["n"].tolist()
            assert info.index.tolist() == batch["n"].tolist()
            batch = batch["made"]
        assert type(batch) in (kind, Images)  # that takes a whole batch of three
        loader.load_state_dict(loader.state_dict())
        loader.close()


def test_a_checked_named_tuple_in_jax():
    jax = pytest.importorskip("jax")
    import echobuf.jax

    items = [CheckedPair(np.full(3, i), np.ones(1)) for i in range(COUNT)]
    for batch in echobuf.jax.EchoLoader(items, **ARGUMENTS):
        assert type(batch) is CheckedPair
        assert isinstance(batch.x, jax.Array)


@pytest.mark.parametrize("batched", [False, True])
def test_leaves_of_a_class_are_named_in_one_of_it(batched):
    items = [ByAttribute(x=np.full((3, 3), i), y=np.arange(3)) for i in range(COUNT)]
    named = ByAttribute(x="packed", y=None)
    more = {"payload_bytes": 9999, "ragged": named, "batched": batched}
    for batch in echobuf.EchoLoader(items, **ARGUMENTS, **more):
        assert type(batch) is ByAttribute
        assert type(batch["x"]) is echobuf.Ragged


def test_an_item_of_another_structure_is_named():
    items = [ByAttribute(x=np.ones(3), y=1)] * 3 + [ByAttribute(x=np.ones(3))]
    with pytest.raises(echobuf.ItemError, match=r"item 3 .*another structure"):
        list(echobuf.EchoLoader(items, batch_size=2, window=4, factor=1))


def test_keys_in_another_order():
    items = [ByAttribute(x=1, y=2), ByAttribute(y=2, x=1)] * 3
    for batch in echobuf.EchoLoader(items, batch_size=2, window=4, factor=1):
        assert (batch["x"] == 1).all()
        assert list(batch) == ["x", "y"]


def test_a_buffer_and_workers_and_a_server():
    items = [Frozen(np.full(3, i), np.ones(1)) for i in range(COUNT)]
    loader = echobuf.EchoLoader(items, num_workers=1, **ARGUMENTS)
    assert all(type(batch) is Frozen for batch in loader)
    loader.close()
    with echobuf.serve.Server(items, "containers", window=6):
        attached = echobuf.serve.attach("containers")
        assert "Frozen(x=Field" in repr(attached.spec)
        assert all(
            type(batch) is Frozen for batch in echobuf.EchoLoader(attached, **ARGUMENTS)
        )
        attached.close()


def test_a_tensorclass_is_no_dataclass():
    @dataclasses.dataclass
    class Tensors:
        _is_tensorclass = True
        x: object

    with pytest.raises(echobuf.SpecError, match=r"type Tensors.*`\.to_dict\(\)`"):
        list(echobuf.EchoLoader([Tensors(np.ones(3))], **ARGUMENTS))
