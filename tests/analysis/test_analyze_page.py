"""docs/analyze.md: its code runs, and its table of the JSON file is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import markdown
from echobuf.analysis import Cluster
from echobuf.analysis.report import Report
from measured import measurements

PAGE = Path(__file__).parents[2] / "docs" / "analyze.md"


def test_the_code_runs(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    import echobuf.torch  # noqa: F401

    monkeypatch.chdir(tmp_path)
    data = torch.utils.data.TensorDataset(torch.rand(2048, 64), torch.arange(2048))
    weights = torch.rand(64, 400)
    names = {
        "data_loader": torch.utils.data.DataLoader(data, batch_size=16),
        "train_step": lambda batch: torch.linalg.norm(batch[0] @ weights),
    }
    first, then, priced = markdown.blocks(PAGE, "python")
    exec(first.replace("seconds=30", "seconds=0.5"), names)
    assert (tmp_path / "report.png").stat().st_size > 1000
    printed = " ".join(capsys.readouterr().out.split())
    assert names["report"].message in printed
    names["report"] = Report(measurements(4.0))
    exec(then, names)
    assert sum(len(batch[1]) for batch in names["loader"]) == 4 * 2048
    exec(priced.replace("repeats=", "seconds=0.3, repeats="), names)
    assert names["report"].repeats == names["mine"]
    lifetime, factor = map(float, capsys.readouterr().out.split())
    assert (round(lifetime, 2), round(factor, 1)) == (1.06, 3.9)  # as the page says


def test_every_field_of_the_json_file_is_described():
    table = PAGE.read_text().partition("\n## JSON\n")[2]
    described = set(re.findall(r"`(\w+)`", table))
    content = json.loads(Report(measurements(), Cluster(2)).to_json())
    parts = [content, content["predictions"][0], content["memory"]]
    parts += [content["remedies"][0], content["across"][0]]
    parts += [content["repeats"], content["worths"][0]]
    for fields in parts:
        assert set(fields) <= described
