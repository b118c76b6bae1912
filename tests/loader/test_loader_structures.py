"""Structures of a DataLoader's examples: batches have them, too."""

import dataclasses
import functools
from collections import Counter, UserDict, namedtuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import DataLoader

import echobuf.torch
import echobuf.transforms
from test_loader_settings import SIZE, N, Numbers, check_epochs, echo

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

Pair = namedtuple("Pair", "id image")


@dataclasses.dataclass
class Sample:
    id: torch.Tensor
    image: torch.Tensor
    lengths: list[int] = dataclasses.field(default_factory=list, init=False)

    def __post_init__(self):
        assert isinstance(self.id, torch.Tensor)
        self.lengths = self.id * 2


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    id: torch.Tensor
    inner: Pair


class Encoding(UserDict):
    """As tokenizers give them."""


def nested(examples):
    """Return results of a collate_fn: nested dicts, lists and (named) tuples."""
    number = torch.tensor([each["id"] for each in examples])
    image = number[:, None] * torch.ones(2, 3)[None, 0]
    return {
        "id": number,
        "pair": Pair(number, image),
        "deep": ({"list": [image, (number, image.double())]}, image > 3),
        "half": image.to(torch.bfloat16),
    }


def shape_of(tree):
    """Types all the way down, with dtypes and the shape of an example."""
    if isinstance(tree, dict):
        return dict, {key: shape_of(each) for key, each in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree), [shape_of(each) for each in tree]
    return type(tree), tree.dtype, tree.shape[1:]


@pytest.mark.parametrize("workers", [0, 2])
def test_nested_structures(workers):
    upstream = DataLoader(Numbers(), SIZE, collate_fn=nested, num_workers=workers)
    expected = shape_of(next(iter(upstream)))
    for batch in check_epochs(echo(upstream), epochs=2):
        assert shape_of(batch) == expected
        number = batch["id"]
        (inner, big), image = batch["deep"], batch["pair"].image
        assert torch.equal(batch["pair"].id, number)
        assert torch.equal(inner["list"][1][0], number)
        assert torch.equal(image, number[:, None].expand(-1, 3).float())
        assert torch.equal(inner["list"][1][1], image.double())
        assert torch.equal(big, image > 3)
        assert torch.equal(batch["half"], image.bfloat16())


def sample(number, image):
    return Sample(number, image)


def frozen(number, image):
    return Frozen(number, Pair(number, {"deep": sample(number, image)}))


def encoding(number, image):
    return Encoding(id=number, inner=Encoding(image=image))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [sample, frozen, encoding])
def test_dataclasses_and_user_dicts(make, workers):
    upstream = DataLoader(
        Numbers(),
        SIZE,
        collate_fn=functools.partial(made_by, make),
        num_workers=workers,
    )
    for _ in range(2):
        used = Counter()
        for batch in echo(upstream):
            number = batch["id"] if make is encoding else batch.id
            again = make(number, number[:, None].expand(-1, 3).float())
            assert repr(batch) == repr(again)
            assert type(batch) is type(again)
            used.update(number.tolist())
        assert used == Counter(2 * list(range(N)))


def made_by(make, examples):
    number = torch.tensor([each["id"] for each in examples])
    return make(number, number[:, None].expand(-1, 3).float())


def test_a_transform_of_a_field():
    upstream = [Sample(torch.tensor(k), torch.ones(3)) for k in range(12)]
    chain = [echobuf.transforms.ToDtype(torch.float16)]
    options = {"batch_size": 4, "window": 8, "factor": 1, "transform": {"image": chain}}
    for batch in echobuf.torch.EchoLoader(upstream, **options):
        assert batch.image.dtype == torch.float16
        assert torch.equal(batch.lengths, 2 * batch.id)


def test_a_field_that_is_no_array_is_carried():
    upstream = [Frozen(torch.tensor(1), "text")] * 9
    for batch in echo(upstream, batch_size=4):
        assert type(batch) is Frozen
        assert batch.inner == ["text"] * len(batch.id)
    with pytest.raises(echobuf.SpecError, match=r"`example\.inner` is of type str"):
        list(echo(upstream, batch_size=4, carry=False))


def test_named_tuples_of_a_dataset():
    data = [Pair(number, np.full(3, number)) for number in range(N)]
    loader = echo(DataLoader(data, SIZE))
    used = Counter()
    for batch in loader:
        assert type(batch) is Pair
        assert torch.equal(batch.image, batch.id[:, None].expand(-1, 3))
        used.update(batch.id.tolist())
    assert used == Counter(2 * list(range(N)))
