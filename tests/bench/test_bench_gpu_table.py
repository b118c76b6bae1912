"""The table of figures in docs/gpu.md is that of all result files of a GPU."""

import json

import pytest

from scripts import BENCH, importable


@pytest.fixture
def table(monkeypatch):
    with importable(monkeypatch, BENCH / "gpu") as load:
        yield load("table")


def test_the_page_has_the_table_of_the_result_files(table):
    assert table.markdown() in (BENCH.parent / "docs" / "gpu.md").read_text()


def test_each_result_file_has_a_row_and_was_measured_on_a_device(table):
    files = {path.stem: path for path in table.RESULTS.glob("*.json")}
    assert files.keys() == table.ROWS.keys()
    for path in files.values():
        content = json.loads(path.read_text())
        assert content["simulated"] is False
        assert content["environment"]["gpu"]


def test_a_row_that_misses_its_aim_says_no(table, tmp_path):
    for path in table.RESULTS.glob("*.json"):
        content = json.loads(path.read_text())
        if path.stem == "gpu_draw_images":
            content["results"]["echobuf out="]["speed_over_reference"] = 0.89
        (tmp_path / path.name).write_text(json.dumps(content))
    before, after = table.markdown(), table.markdown(tmp_path)
    assert before.splitlines()[2].split(" | ")[3] == "yes"
    assert after.splitlines()[2].split(" | ")[3] == "no"
    assert before.splitlines()[3:] == after.splitlines()[3:]
