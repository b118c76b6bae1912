"""Arrays of ragged batches on a device: laid out once, whatever the lengths are."""

import threading

import numpy as np
import pytest

import echobuf
from echobuf import Field
from echobuf.testing import simulated_cuda

FORMS = [
    {"ragged": "packed", "batch_size": 4},
    {"ragged": "padded", "batch_size": 4},
    {"pack_to": 64, "batch_size": 2},
]


@pytest.mark.parametrize("form", FORMS, ids=["packed", "padded", "rows"])
def test_no_batch_makes_a_spec_because_its_length_is_new(form, monkeypatch):
    made = []
    for kind in (Field, echobuf.spec.Spec):
        before = kind.__init__

        def counted(self, *args, before=before, **kwargs):
            made.append(type(self))
            return before(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", counted)
    spec = {"tokens": Field((None,), np.int32, max_length=60), "label": Field((), "i8")}
    if "pack_to" in form:
        del spec["label"]
    shapes = set()
    with (
        simulated_cuda(),
        echobuf.EchoBuffer(spec, window=16, factor=2, device="cuda", **form) as buffer,
    ):
        producer = threading.Thread(target=fill, args=[buffer, list(spec)])
        producer.start()
        buffer.next_batch(timeout=30)
        producer.join()
        first = len(made)
        for batch in buffer:
            shapes.add(batch["tokens"].values.shape)
        assert len(made) == first
    assert len(shapes) > 4 or "pack_to" in form


def fill(buffer, names):
    """Put as many examples as the ring holds at once, and close."""
    for number in range(20):
        example = {"tokens": np.full(1 + 7 * number % 59, number, np.int32)}
        if "label" in names:
            example["label"] = np.int64(number)
        buffer.put(example)
    buffer.close()
