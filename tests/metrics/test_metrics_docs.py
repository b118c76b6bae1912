"""The examples of docs/metrics.md work."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import echobuf
import markdown
from echobuf import metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_code_of_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    loop, by_hand, sink = markdown.blocks(PAGE, "python")
    batches = []
    names = {"upstream": list(np.arange(3000)), "train_step": batches.append}
    exec(loop, names)
    assert {int(x) for batch in batches for x in batch} == {*range(3000)}
    assert names["monitor"].steps == len(batches)
    assert re.findall(r"^step ", capsys.readouterr().err, re.MULTILINE)

    batches.clear()
    with echobuf.EchoBuffer(np.int64(0), batch_size=4, window=8) as buffer:
        buffer.put_batch(np.arange(8))
        buffer.close()
        exec(by_hand, names | {"buffer": buffer})
    assert len(batches) == 4
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"one", "two"}

    exec(sink, names)
    assert isinstance(names["Print"](), metrics.Sink)
    names["Print"]().write(3, {"echobuf/ratio": 2.0})
    assert capsys.readouterr().out == "3 R = 2.0\n"


def test_the_page_names_what_there_is():
    text = PAGE.read_text()
    sinks = set(re.findall(r"^\| `(\w+)\(.*?\)` \|", text, re.MULTILINE))
    helpers = {"Sink", "metrics_of"}
    assert sinks == set(metrics.__all__) - helpers
    fields = {field.name for field in dataclasses.fields(echobuf.Stats)}
    table = text.partition("\n\nValues that are not known")[0]
    told = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    )
    assert told <= fields
    assert {"t_upstream_s", "t_downstream_s", "ratio", "wait_share"} <= told
