"""Signatures, docstrings and the page of options are those of the table."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import echobuf
import written_options
from echobuf.arguments import BUFFER, LOADER
from echobuf.options import options_of

pytestmark = pytest.mark.host


@pytest.mark.parametrize("path", written_options.written(), ids=lambda path: path.name)
def test_a_file_is_as_the_table_has_it(path: Path):
    how = "write it anew: `python tests/written_options.py`"
    assert path.read_text() == written_options.written()[path], how


@pytest.mark.parametrize(
    ("cls", "owner"), [(echobuf.EchoBuffer, BUFFER), (echobuf.EchoLoader, LOADER)]
)
def test_a_signature_is_seen_by_those_who_inspect_it(cls, owner):
    _, *seen = inspect.signature(cls).parameters.values()
    for parameter, (name, row) in zip(seen, options_of(owner), strict=True):
        of = row.of(owner)
        assert parameter.name == name
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.annotation == of.type.replace('"', "'")
        assert parameter.default in (of.default, parameter.empty)
