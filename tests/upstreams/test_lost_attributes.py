"""Arrays and tensors of derived classes: what batches lose of them is said once."""

import re
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import echobuf
import echobuf.serve
import echobuf.torch

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


class Quantity(np.ndarray):
    """As those of astropy."""

    unit = property(lambda self: self.__dict__["_unit"])


class Plain(np.ndarray):
    pass


def quantity(number):
    array = np.full(3, number, np.float32).view(Quantity)
    array.__dict__.update(_unit="m", _pending=[])
    return array


class Made:
    """Examples made where they are read: pickles lose what NumPy's arrays have."""

    def __init__(self, make, rows):
        self.make, self.rows = make, rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"x": self.make(i), "z": self.make(i), "t": np.ones(self.rows[i])}


class MetaTensor(torch.Tensor):
    """As MONAI's."""


def image(number):
    tensor = torch.full((3,), number, dtype=torch.float32).as_subclass(MetaTensor)
    tensor.meta = {"affine": torch.eye(4), "space": "RAS"}
    return tensor


LOSSES = [
    (quantity, r"`example\['x'\]` is of type Quantity, with `unit`, which"),
    (image, r"is of type MetaTensor, with `meta` \(affine, space\), which"),
]


def said_of(upstream, maker=echobuf, **arguments):
    arguments = {"batch_size": 2, "window": 4, "factor": 2, **arguments}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = maker.EchoLoader(upstream, **arguments)
        for _ in range(2):
            assert len(list(loader)) > 0
        loader.close()
    return [str(each.message) for each in caught if "echobuf" not in each.filename]


@pytest.mark.parametrize(
    ("framework", "arguments"),
    [
        ("echobuf", {}),
        ("echobuf", {"payload_bytes": 999}),
        ("echobuf.torch", {}),
        ("echobuf.torch", {"payload_bytes": 999}),
        ("echobuf.torch", {"num_workers": 1}),
    ],
)
@pytest.mark.parametrize(("make", "line"), LOSSES)
def test_a_loader_warns_once_of_each_class(make, line, framework, arguments):
    rows = [*range(1, 4)] * 4
    if "payload_bytes" not in arguments:
        rows = [1] * 12
    (said,) = said_of(Made(make, rows), pytest.importorskip(framework), **arguments)
    assert re.search(line, said)


def test_batches_that_are_stacked_or_not():
    batch = np.zeros((2, 3), np.float32).view(Quantity)
    batch.__dict__.update(_unit="m")
    (said,) = said_of([{"x": batch}] * 4, batched=True)
    assert said.startswith("`batch['x']` is of type Quantity, with `unit`")
    items = [[{"x": quantity(i)}] * 2 for i in range(4)]
    (said,) = said_of(items, batched=True, payload_bytes=999, ragged={"x": "packed"})
    assert said.startswith("`batch[0]['x']` is of type Quantity")


def test_a_buffer_warns_once_of_what_is_put_first():
    spec = echobuf.Field(3, np.float32)
    with echobuf.EchoBuffer(spec, batch_size=1, window=4) as buffer:
        with pytest.warns(UserWarning, match="`example` is of type Quantity") as caught:
            buffer.put(quantity(1))
        buffer.put(quantity(2))
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_a_server_warns():
    items = [quantity(i) for i in range(4)]
    with pytest.warns(UserWarning, match="of type Quantity"):
        server = echobuf.serve.Server(items, "lost", window=4)
    server.close()


@pytest.mark.filterwarnings("error")
def test_classes_that_lose_nothing(tmp_path):
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=3)
    for leaf in (
        np.zeros(3, np.float32).view(Plain),
        mapped,
        np.ma.masked_array(np.zeros(3)),
        np.rec.array(np.zeros(3, [("a", "f4")])),
        torch.nn.Parameter(torch.zeros(3), requires_grad=False),
    ):
        list(echobuf.EchoLoader([leaf] * 4, batch_size=2, window=4, factor=1))


def test_a_masked_array_is_refused_where_something_is_masked():
    mask = [False, True, False]
    first, later = (np.ma.masked_array(np.zeros(3), m) for m in (None, mask))
    with pytest.raises(echobuf.ItemError, match=r"item 1 .*is a masked array"):
        list(echobuf.EchoLoader([first, later], batch_size=1, window=1, factor=1))
    with pytest.raises(echobuf.SpecError, match=r"`example` is a masked array"):
        list(echobuf.EchoLoader([later], batch_size=1, window=1, factor=1))
