"""Loaders over upstreams whose items lie on a device, which the host cannot read."""

import numpy as np
import pytest

import echobuf
from echobuf import ItemError, SpecError
from echobuf.testing import simulated_cuda
from same_batches import count_same

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

N = 40
KWARGS = {"window": 12, "factor": 2.5, "device": "cuda", "seed": 3}
EXAMPLES = {"batch_size": 4, **KWARGS}
RAGGED = {"ragged": "packed", "payload_bytes": 4000}


@pytest.fixture
def on():
    with simulated_cuda(1) as simulation:
        yield simulation


class ByInterface:
    """An array that says where it is by `__cuda_array_interface__` alone."""

    def __init__(self, array):
        self._owner = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class ByDlpack:
    """An array that says where it is by `__dlpack__` alone."""

    def __init__(self, array):
        self._owner = array

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._owner.__dlpack__(**options)


KINDS = pytest.mark.parametrize("kind", [lambda a: a, ByInterface, ByDlpack])


def number(i):
    """An example, on the host."""
    image = np.full((3, 2), i, np.float32)
    return {"image": image, "id": np.int64(i)}


def numbers(count=N):
    return [number(i) for i in range(count)]


def batches(sizes=(7, 7, 7, 7, 7, 5)):
    """The same examples, stacked."""
    made, first = [], 0
    for size in sizes:
        rows = numbers()[first : first + size]
        made.append({name: np.stack([row[name] for row in rows]) for name in rows[0]})
        first += size
    return made


class Upstream:
    """An upstream of items whose images lie on a device.

    Args:
        items: of the host.
        place: puts an array on the device.
    """

    def __init__(self, items, place):
        self._items = items
        self._place = place

    def __iter__(self):
        for item in self._items:
            yield {**item, "image": self._place(item["image"])}


# ---- batches are those of the same items on the host


@KINDS
def test_examples_come_as_from_the_host(on, kind):
    upstream = Upstream(numbers(), lambda image: kind(on.array(image)))
    loader = echobuf.EchoLoader(upstream, **EXAMPLES)
    expected = echobuf.EchoLoader(numbers(), **EXAMPLES)
    for _ in range(2):
        assert count_same(loader, expected) > 20


@KINDS
@pytest.mark.parametrize("unit", ["example", "batch"])
def test_batches_come_as_from_the_host(on, kind, unit):
    upstream = Upstream(batches(), lambda image: kind(on.array(image)))
    kwargs = {**KWARGS, "unit": unit, "batched": True}
    if unit == "batch":
        kwargs["window"] = 3
    loader = echobuf.EchoLoader(upstream, **kwargs)
    expected = echobuf.EchoLoader(batches(), **kwargs)
    assert count_same(loader, expected) > 10


@KINDS
@pytest.mark.parametrize("after", [3, 11])
def test_it_goes_on_in_the_middle_of_a_batch(on, kind, after):
    upstream = Upstream(batches(), lambda image: kind(on.array(image)))
    first = echobuf.EchoLoader(upstream, batched=True, **KWARGS)
    begun = iter(first)
    for _ in range(after):
        next(begun)
    state = first.state_dict()
    loader = echobuf.EchoLoader(upstream, batched=True, **KWARGS)
    loader.load_state_dict(state)
    assert count_same(loader, begun) > 2


def test_objects_are_carried_beside_arrays_on_the_device(on):
    class Name:
        pass

    items = [{**each, "name": Name()} for each in numbers()]
    upstream = Upstream(items, on.array)
    seen = 0
    for batch in echobuf.EchoLoader(upstream, **EXAMPLES):
        assert batch["image"][:, 0, 0].tolist() == batch["id"].tolist()
        for name, i in zip(batch["name"], batch["id"], strict=True):
            assert name is items[i]["name"]
            seen += 1
    assert seen == 100


def test_a_list_of_arrays_in_a_batch_is_no_object(on):
    def upstream():
        for i in range(8):
            rows = np.arange(12, dtype=np.float32).reshape(4, 3) + i
            yield [on.array(rows), on.array(-rows)]

    for batch in echobuf.EchoLoader(upstream(), batched=True, **KWARGS):
        assert isinstance(batch, list)
        np.testing.assert_array_equal(batch[0], -batch[1])


def test_upstream_may_use_the_memory_again(on):
    """In the order of its stream."""

    def upstream():
        image = on.array(np.zeros((3, 2), np.float32))
        for each in numbers():
            image.copy_from(each["image"])
            yield {**each, "image": image}
        image.copy_from(np.nan)
        image.free()

    loader = echobuf.EchoLoader(upstream(), **EXAMPLES)
    expected = echobuf.EchoLoader(numbers(), **EXAMPLES)
    assert count_same(loader, expected) > 20


# ---- ragged


def sequences():
    return [{"image": np.full((1 + i % 5, 2), i, np.float32)} for i in range(N)]


def test_ragged_examples_come_as_from_the_host(on):
    upstream = Upstream(sequences(), on.array)
    loader = echobuf.EchoLoader(upstream, **EXAMPLES, **RAGGED)
    expected = echobuf.EchoLoader(sequences(), **EXAMPLES, **RAGGED)
    assert count_same(loader, expected) > 20


def test_lengths_are_looked_for_in_copies(on):
    def upstream():
        for each in sequences():
            image = on.array(each["image"])
            yield {"image": image}
            image.copy_from(np.nan)
            image.free()

    loader = echobuf.EchoLoader(upstream(), **EXAMPLES, **RAGGED)
    expected = echobuf.EchoLoader(sequences(), **EXAMPLES, **RAGGED)
    assert count_same(loader, expected) > 20


def test_what_cannot_be_copied_meanwhile_is_refused(on):
    upstream = Upstream(sequences(), lambda image: ByDlpack(on.array(image)))
    loader = echobuf.EchoLoader(upstream, **EXAMPLES, **RAGGED)
    with pytest.raises(SpecError, match="ByDlpack on cuda:0, which must be copied"):
        next(iter(loader))


def packed(rows):
    offsets = np.cumsum([0, *map(len, rows)])
    return echobuf.Ragged(np.concatenate(rows), offsets)


@KINDS
def test_ragged_batches_come_as_from_the_host(on, kind):
    rows = [each["image"] for each in sequences()]
    ours = [{"image": packed(rows[i : i + 7])} for i in range(0, N, 7)]

    def place(leaf):
        return echobuf.Ragged(kind(on.array(leaf.values)), leaf.offsets)

    kwargs = {**EXAMPLES, **RAGGED, "batched": True}
    upstream = Upstream(ours, place)
    first = echobuf.EchoLoader(upstream, **kwargs)
    expected = echobuf.EchoLoader(ours, **kwargs)
    assert count_same(first, expected) > 20
    begun = iter(first)
    for _ in range(7):
        next(begun)
    loader = echobuf.EchoLoader(upstream, **kwargs)
    loader.load_state_dict(first.state_dict())
    assert count_same(loader, begun) > 10


@KINDS
@pytest.mark.parametrize("of_examples", [False, True])
def test_lists_of_ragged_examples_come_as_from_the_host(on, kind, of_examples):
    """Lists of arrays, and lists of examples, as `collate_fn=list` leaves them."""

    def batched(examples):
        batches = [examples[i : i + 7] for i in range(0, N, 7)]
        if of_examples:
            return batches
        return [{"image": [each["image"] for each in batch]} for batch in batches]

    class Batches:
        def __iter__(self):
            for batch in batched(sequences()):
                rows = batch if of_examples else batch["image"]
                placed = [
                    kind(on.array(row["image"] if of_examples else row)) for row in rows
                ]
                yield (
                    [{"image": each} for each in placed]
                    if of_examples
                    else {"image": placed}
                )

    kwargs = {**EXAMPLES, **RAGGED, "batched": True}
    loader = echobuf.EchoLoader(Batches(), **kwargs)
    expected = echobuf.EchoLoader(batched(sequences()), **kwargs)
    assert count_same(loader, expected) > 20


@KINDS
def test_padded_batches_come_as_from_the_host(on, kind):
    ours = [{"image": np.full((4, 1 + i % 3, 2), i, np.float32)} for i in range(12)]
    upstream = Upstream(ours, lambda image: kind(on.array(image)))
    kwargs = {**EXAMPLES, **RAGGED, "batched": True, "ragged": {"image": "packed"}}
    loader = echobuf.EchoLoader(upstream, **kwargs)
    assert count_same(loader, echobuf.EchoLoader(ours, **kwargs)) > 20


@pytest.mark.parametrize("of_values", [True, False])
def test_offsets_on_the_device_are_refused(on, of_values):
    rows = [each["image"] for each in sequences()]

    def place(leaf):
        values = on.array(leaf.values) if of_values else leaf.values
        return echobuf.Ragged(values, on.array(leaf.offsets))

    kwargs = {**EXAMPLES, **RAGGED, "batched": True}
    loader = echobuf.EchoLoader(Upstream([{"image": packed(rows)}], place), **kwargs)
    with pytest.raises(SpecError, match="has its offsets on cuda:0"):
        next(iter(loader))


# ---- frameworks


def test_torchs_loader_takes_them(on):
    torch = pytest.importorskip("torch")
    from echobuf.torch import EchoLoader

    upstream = Upstream(numbers(), on.array)
    batch = next(iter(EchoLoader(upstream, **EXAMPLES)))
    assert isinstance(batch["image"], torch.Tensor)
    assert batch["image"][:, 0, 0].tolist() == batch["id"].tolist()


def test_jaxs_loader_takes_them(on):
    jax = pytest.importorskip("jax")
    from echobuf.jax import EchoLoader

    upstream = Upstream(numbers(), on.array)
    batch = next(iter(EchoLoader(upstream, **EXAMPLES)))
    assert isinstance(batch["image"], jax.Array)
    assert batch["image"][:, 0, 0].tolist() == batch["id"].tolist()


# ---- streams


def test_upstream_works_on_the_callers_stream(on):
    stream = on.stream()
    with stream:
        images = [on.array(each["image"]) for each in numbers()]
        items = [
            {**each, "image": x} for each, x in zip(numbers(), images, strict=True)
        ]
        loader = echobuf.EchoLoader(items, **EXAMPLES)
        assert count_same(loader, echobuf.EchoLoader(numbers(), **EXAMPLES)) > 20


def test_upstream_may_have_a_stream_of_its_own(on):
    stream = on.stream()

    def upstream():
        for each in numbers():
            with stream:
                yield {**each, "image": on.array(each["image"])}

    loader = echobuf.EchoLoader(upstream(), **EXAMPLES)
    assert count_same(loader, echobuf.EchoLoader(numbers(), **EXAMPLES)) > 20


# ---- what is refused


@pytest.mark.parametrize("batched", [False, True])
def test_a_loader_on_the_cpu_refuses_them(on, batched):
    items = batches() if batched else numbers()
    taken = []
    upstream = Upstream(items, lambda image: taken.append(1) or on.array(image))
    kwargs = {"batch_size": 4, "window": 12, "batched": batched}
    what = "batch" if batched else "example"
    loader = echobuf.EchoLoader(upstream, **kwargs)
    with pytest.raises(SpecError) as caught:
        iter(loader)
    text = str(caught.value)
    assert f"`{what}['image']` is on cuda:0, but the buffer is on the CPU" in text
    assert "device='cuda:0'" in text
    assert "`x.get()`" in text
    assert len(taken) == 1
    assert loader.stats().fresh == 0


def test_a_loader_on_the_cpu_refuses_later_ones(on):
    def upstream():
        yield number(0)
        yield Upstream([number(1)], on.array).__iter__().__next__()

    loader = echobuf.EchoLoader(upstream(), batch_size=1, window=2, factor=1)
    with pytest.raises(ItemError, match=r"item 1 .*is on cuda:0, but the buffer"):
        list(loader)


def test_a_loader_on_another_device_refuses_them(on):
    upstream = Upstream(numbers(), lambda image: on.array(image, device=1))
    loader = echobuf.EchoLoader(upstream, **EXAMPLES)
    with pytest.raises(ItemError, match="is on cuda:1, but the buffer is on cuda:0"):
        list(loader)
