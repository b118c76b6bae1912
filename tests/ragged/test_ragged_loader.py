"""Loaders of examples that differ in length: inferred, named, batched upstream."""

import numpy as np
import pyarrow as pa
import pytest
import text_batches
from text_batches import stacked, text

import echobuf
from echobuf import EchoLoader, Field, Padded, Ragged
from echobuf.loader.loader import internals_of
from echobuf.spec import describe
from equal_arrays import assert_equal
from helpers import WAIT_S

pytestmark = pytest.mark.contract

KWARGS = {"batch_size": 8, "window": 32, "factor": 2, "payload_bytes": 4000}


EXAMPLES = [text(number) for number in range(60)]


def spec_of(loader):
    """The spec that a loader has inferred, in words."""
    return describe(internals_of(loader).starter.buffer.spec)


def whole(batch):
    """The numbers of a batch whose leaves belong together."""
    numbers = batch["label"].tolist()
    assert type(batch["ids"]) in (Ragged, Padded)
    for number, ids, image in zip(
        numbers, batch["ids"].to_list(), batch["image"], strict=True
    ):
        assert_equal(ids, text(number)["ids"])
        assert (image == number).all()
    return numbers


def numbers_of(loader):
    return [number for batch in loader for number in whole(batch)]


@pytest.mark.parametrize("ragged", [None, "packed", "padded"])
def test_leaves_whose_length_varies_are_found(ragged):
    loader = EchoLoader(EXAMPLES, ragged=ragged, **KWARGS)
    assert sorted(numbers_of(loader)) == sorted([*range(60)] * 2)
    assert spec_of(loader) == (
        "{'ids': int32[None], 'image': uint8[2, 3], 'label': int64[]}"
    )
    kind = Padded if ragged == "padded" else Ragged
    assert type(next(iter(loader))["ids"]) is kind
    assert len(loader) == 15
    loader.close()


def test_the_order_is_that_of_a_buffer_and_epochs_differ():
    loader = EchoLoader(EXAMPLES, seed=3, **KWARGS)
    first, second = numbers_of(loader), numbers_of(loader)
    spec = {**EXAMPLES[0], "ids": Field((None,), np.int32)}
    with echobuf.EchoBuffer(spec, seed=3, **KWARGS) as buffer:
        served = []
        for example in EXAMPLES[:32]:
            buffer.put(example)
        for example in EXAMPLES[32:]:
            while True:
                try:
                    buffer.put(example, timeout=0)
                    break
                except TimeoutError:
                    served += whole(buffer.next_batch(timeout=WAIT_S))
        buffer.close()
        served += [number for batch in buffer for number in whole(batch)]
    assert first == served
    assert second != first
    assert sorted(second) == sorted(first)


def test_looking_ahead_takes_no_more_than_it_must():
    seen = []

    def upstream():
        for example in EXAMPLES:
            seen.append(example["label"])
            yield {"ids": example["ids"], "label": example["label"]}

    loader = EchoLoader(upstream(), **KWARGS)
    batches = iter(loader)
    next(batches)
    assert seen == list(range(len(seen)))
    loader.close()


def test_all_are_read_though_some_were_looked_at():
    same = [{"x": np.full(3, i, np.int8)} for i in range(40)]
    varied = [*same, {"x": np.full(4, 40, np.int8)}]
    loader = EchoLoader(varied, batch_size=1, window=200, factor=1, payload_bytes=999)
    drawn = sorted(int(each[0]) for batch in loader for each in batch["x"].to_list())
    assert drawn == list(range(41))


@pytest.mark.parametrize("at", [0, 1, 5, 59])
def test_an_error_of_upstream_comes_after_what_was_before_it(at):
    def upstream():
        yield from EXAMPLES[:at]
        raise OSError("the disk is gone")

    loader = EchoLoader(upstream(), **{**KWARGS, "batch_size": 1, "factor": 1})
    with pytest.raises(echobuf.UpstreamError, match="the disk is gone"):
        for _ in loader:
            pass


def test_bytes_are_ragged():
    files = [{"jpg": bytes(range(number % 9)), "cls": number} for number in range(20)]
    loader = EchoLoader(files, batch_size=5, window=10, factor=1, payload_bytes=400)
    for batch in loader:
        for number, data in zip(batch["cls"], batch["jpg"].to_list(), strict=True):
            assert data.tobytes() == files[number]["jpg"]
    assert spec_of(loader) == "{'jpg': uint8[None], 'cls': int64[]}"


def test_ragged_leaves_may_be_named():
    named = {"ids": "packed", "image": "packed", "label": None}
    loader = EchoLoader(EXAMPLES, ragged=named, **KWARGS)
    next(iter(loader))
    assert spec_of(loader) == (
        "{'ids': int32[None], 'image': uint8[None, 3], 'label': int64[]}"
    )
    sorted_by_length = sorted(EXAMPLES, key=lambda each: len(each["ids"]))
    many_alike = [sorted_by_length[0]] * 100 + sorted_by_length
    named["image"] = None
    loader = EchoLoader(many_alike, ragged=named, **KWARGS)
    assert len(numbers_of(loader)) == 2 * 160


@pytest.mark.parametrize(
    ("ragged", "said"),
    [
        ({"ids": "packed"}, "another structure"),
        ({"ids": "packed", "image": "padded", "label": None}, "have one form"),
        ({"ids": None, "image": None, "label": None}, "`ragged` is"),
        ({"ids": 3, "image": None, "label": None}, "`ragged` is"),
        ({"ids": "packed", "image": None, "label": "packed"}, "is a scalar"),
        ("jagged", "`ragged` is 'jagged'"),
        ("nested", "echobuf.torch"),
    ],
    ids=str,
)
def test_names_that_do_not_fit_are_refused(ragged, said):
    with pytest.raises(echobuf.OptionError, match=said):
        iter(EchoLoader(EXAMPLES, ragged=ragged, **KWARGS))


def test_what_varies_is_offered_as_ragged():
    loader = EchoLoader(EXAMPLES, batch_size=4, window=8, factor=1)
    with pytest.raises(echobuf.ItemError) as caught:
        numbers_of(loader)
    for said in ("`example['ids']` has shape [7]", "ragged='packed'", "payload_bytes"):
        assert said in str(caught.value)
    images = [np.zeros((2, 3)), np.zeros((2, 4))]
    with pytest.raises(echobuf.ItemError) as caught:
        list(EchoLoader(images, batch_size=2, window=2, factor=1))
    assert "on axis 0: `np.moveaxis(x, 1, 0)`" in str(caught.value)


def test_nothing_that_varies_is_refused():
    fixed = [{"x": np.zeros(3), "y": 1}] * 20
    loader = EchoLoader(fixed, **KWARGS)
    with pytest.raises(
        echobuf.OptionError, match=r"`payload_bytes` is 4000.*Name those"
    ):
        iter(loader)


def test_other_axes_must_not_vary():
    items = [np.zeros((2, 3)), np.zeros((3, 3)), np.zeros((2, 4))]
    loader = EchoLoader(items, **{**KWARGS, "batch_size": 1, "factor": 1})
    with pytest.raises(echobuf.ItemError, match=r"shape \[2, 4\].*\[None, 3\]"):
        list(loader)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"payload_bytes": None, "ragged": "packed"}, "`payload_bytes` is None.*max_l"),
        ({"batch_size": None, "max_rows": 50, "window": None}, "`window` is None"),
        ({"max_rows": 50}, "`batch_size` is 8 and `max_rows` is 50"),
        (
            {"unit": "batch", "batch_size": None, "max_rows": 50},
            "`max_rows` is 50, but `unit` is 'batch'",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(given, said):
    with pytest.raises(echobuf.OptionError, match=said):
        EchoLoader(EXAMPLES, **{**KWARGS, **given})


def test_lists_of_numbers_are_refused_with_a_remedy():
    loader = EchoLoader([{"ids": [1, 2, 3]}, {"ids": [1]}], **KWARGS)
    with pytest.raises(echobuf.SpecError, match=r"np\.asarray.*with_format"):
        iter(loader)


def test_max_rows_makes_batches_of_as_many_as_fit():
    kwargs = {**KWARGS, "batch_size": None, "max_rows": 40}
    loader = EchoLoader(EXAMPLES, **kwargs)
    assert loader.batch_size is None
    assert "max_rows=40" in repr(loader)
    sizes = [len(batch["ids"].values) for batch in loader]
    assert max(sizes) <= 40
    assert sum(size > 28 for size in sizes) > len(sizes) // 2
    with pytest.raises(TypeError, match="max_rows"):
        len(loader)
    assert loader.max_batches() == 120
    fractional = EchoLoader(EXAMPLES, **{**KWARGS, "factor": 2.5})
    with pytest.raises(TypeError, match="fractional"):
        len(fractional)
    assert fractional.max_batches() == 23  # of 8 draws, of which there are at most 180
    assert len(list(fractional)) <= 23


def test_a_state_goes_on_at_any_batch():
    def make():
        return EchoLoader(EXAMPLES, seed=9, **{**KWARGS, "factor": 3})

    loader, served, states = make(), [], []
    for batch in loader:
        served.append(whole(batch))
        states.append(loader.state_dict())
    for done in range(0, len(states) - 1, 4):
        resumed = make()
        resumed.load_state_dict(states[done])
        assert [whole(batch) for batch in resumed] == served[done + 1 :]


def test_the_next_epoch_may_begin_early():
    loader = EchoLoader(EXAMPLES, overlap_epochs=True, seed=2, **KWARGS)
    plain = EchoLoader(EXAMPLES, seed=2, **KWARGS)
    for _ in range(3):
        assert numbers_of(loader) == numbers_of(plain)


class Keeping:
    """An upstream with a state: the number of the example that comes next."""

    def __init__(self):
        self.at = 0
        self.loaded = None
        self.begun_at = []

    def __iter__(self):
        self.at, self.loaded = self.loaded or 0, None
        self.begun_at.append(self.at)
        while self.at < len(EXAMPLES):
            self.at += 1
            yield EXAMPLES[self.at - 1]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.loaded = state["at"]


def test_a_state_of_upstream_is_never_ahead_of_what_was_put():
    kwargs = {**KWARGS, "window": 16, "payload_bytes": 300, "seed": 4}
    loader, served, states = EchoLoader(Keeping(), **kwargs), [], []
    for batch in loader:
        served.append(whole(batch))
        states.append(loader.state_dict())
    assert any(state["upstream"] for state in states)
    for done in range(len(states) - 1):
        upstream = Keeping()
        resumed = EchoLoader(upstream, **kwargs)
        resumed.load_state_dict(states[done])
        assert [whole(batch) for batch in resumed] == served[done + 1 :]
    assert upstream.begun_at[0] > 0  # it went on there


# ---- batches


FORMS = {
    **text_batches.FORMS,
    "chunks": lambda part: {
        **stacked(part),
        "ids": pa.chunked_array([[each["ids"]] for each in part], pa.list_(pa.int32())),
    },
}


def batches(form, size):
    parts = [EXAMPLES[at : at + size] for at in range(0, len(EXAMPLES), size)]
    return [FORMS[form](part) for part in parts]


@pytest.mark.parametrize("form", FORMS)
def test_batches_with_ragged_leaves_are_read(form):
    kwargs = {**KWARGS, "seed": 8}
    wanted = numbers_of(EchoLoader(EXAMPLES, **kwargs))
    del kwargs["batch_size"]
    upstream = batches(form, 8)
    loader = EchoLoader(upstream, batched=True, **kwargs)
    assert numbers_of(loader) == wanted
    assert loader.batch_size == 8  # of the first one
    states = []
    served = [(whole(batch), states.append(loader.state_dict())) for batch in loader]
    for done in (0, 6, 11):  # upstream's batches are cut where they must be
        resumed = EchoLoader(upstream, batched=True, **kwargs)
        resumed.load_state_dict(states[done])
        rest = [whole(batch) for batch in resumed]
        assert rest == [numbers for numbers, _ in served[done + 1 :]]


def test_batches_of_lists_alone_may_be_lists():
    arrays = [each["ids"] for each in EXAMPLES]
    upstream = [arrays[at : at + 6] for at in range(0, 60, 6)]
    loader = EchoLoader(upstream, batched=True, factor=1, window=12, payload_bytes=900)
    drawn = [each.tolist() for batch in loader for each in batch.to_list()]
    assert sorted(drawn) == sorted(array.tolist() for array in arrays)


def test_two_arrays_in_a_list_are_two_leaves():
    upstream = [[np.zeros((4, 2)), np.zeros(4)]] * 5
    loader = EchoLoader(upstream, batched=True, payload_bytes=900, ragged="packed")
    with pytest.raises(echobuf.OptionError, match="no leaf varies"):
        iter(loader)


def test_ragged_leaves_of_batches_may_be_named():
    alike = [np.arange(4)] * 4  # as long as there are
    upstream = [(alike, np.arange(4)), ([np.arange(3)] * 4, np.arange(4))]
    loader = EchoLoader(
        upstream,
        batched=True,
        ragged=("packed", None),
        factor=1,
        window=8,
        payload_bytes=900,
    )
    tokens = [each for x, _ in loader for each in x.to_list()]
    assert sorted(map(len, tokens)) == [3] * 4 + [4] * 4


def test_a_batch_that_does_not_fit_the_first_is_an_item_error():
    upstream = [*batches("lists", 8)[:2], {"ids": [], "label": np.zeros(0)}]
    loader = EchoLoader(upstream, batched=True, **KWARGS)
    with pytest.raises(echobuf.ItemError, match="another structure than the first"):
        numbers_of(loader)
    bad = {**batches("lists", 8)[0], "ids": [np.zeros(2, np.int32)] * 7}
    loader = EchoLoader([batches("lists", 8)[0], bad], batched=True, **KWARGS)
    with pytest.raises(echobuf.ItemError, match=r"holds 8 examples, .* holds 7"):
        numbers_of(loader)
