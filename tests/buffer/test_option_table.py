"""An option that is added to the table, and nowhere else, arrives everywhere."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest

import echobuf
import written_options
from echobuf import EchoBuffer, EchoLoader, Field
from echobuf.arguments import Option, integer
from echobuf.option_table import OptionTable

pytestmark = pytest.mark.host


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> Option[int]:
    """The number of the first epoch: the core knows it, and no option has it."""
    added = Option(
        integer(0, 9),
        "int",
        0,
        core="epoch",
        state="given",
        doc="number of the first epoch. Its order of draws is another one.",
    )
    monkeypatch.setattr(OptionTable, "first_epoch", added, raising=False)
    return added


def make_buffer(**options) -> EchoBuffer:
    return EchoBuffer(Field((), np.int64), batch_size=4, window=8, **options)


def drawn(buffer: EchoBuffer) -> list[list[int]]:
    buffer.put_batch(np.arange(8), timeout=0)
    buffer.close()
    return [batch.tolist() for batch in buffer]


def test_the_core_gets_it():
    usual = make_buffer()
    usual.reset(7)
    order = drawn(usual)
    assert drawn(make_buffer(first_epoch=7)) == order
    assert drawn(make_buffer()) == drawn(make_buffer(first_epoch=0)) != order


def test_it_is_checked_in_the_words_of_all_others():
    words = "^`first_epoch` is 10; it must be an int from 0 to 9"
    with pytest.raises(echobuf.OptionError, match=words):
        make_buffer(first_epoch=10)
    with pytest.raises(echobuf.OptionError, match=words):
        EchoLoader(range(8), batch_size=4, first_epoch=10)


@pytest.mark.parametrize("module", ["echobuf", "echobuf.torch", "echobuf.jax"])
def test_loaders_take_it(module: str):
    cls = pytest.importorskip(module).EchoLoader
    loader = cls(range(16), batch_size=4, window=8, factor=2, first_epoch=3)
    iter(loader)
    arguments = json.loads(loader.state_dict()["arguments"])
    assert arguments["first_epoch"] == 3
    loader.close()
    with pytest.raises(TypeError, match="'first_epochs'"):
        cls(range(16), batch_size=4, first_epochs=3)


def test_states_hold_it_where_it_is_given():
    state = make_buffer(first_epoch=3).state_dict()
    make_buffer(first_epoch=3).load_state_dict(state)
    words = "`first_epoch` 3, but here it is 0"
    with pytest.raises(echobuf.StateError, match=words):
        make_buffer().load_state_dict(state)
    plain = make_buffer().state_dict()
    assert "first_epoch" not in plain["arguments"]
    make_buffer(first_epoch=0).load_state_dict(plain)
    with pytest.raises(echobuf.StateError, match="`first_epoch` 0, but here it is 3"):
        make_buffer(first_epoch=3).load_state_dict(plain)


def test_it_is_written_into_signatures_docstrings_and_the_page(row: Option[int]):
    texts = written_options.written()
    page = texts.pop(written_options.PAGE)
    for text in texts.values():
        assert "\n        first_epoch: int = 0,\n" in text
    entries = sum("\n        first_epoch: number of" in text for text in texts.values())
    assert entries == 2  # of others it is that of their base
    assert "| `first_epoch` | buffer, loaders | an int from 0 to 9 | `0` |" in page
    with contextlib.suppress(ValueError):
        row.check.read("first_epoch", -1)
        pytest.fail("it is not checked")


def test_without_it_in_the_table_python_knows_no_such_argument(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delattr(OptionTable, "first_epoch")
    with pytest.raises(TypeError, match="'first_epoch'"):
        make_buffer(first_epoch=1)
