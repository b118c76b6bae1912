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
    assert files.keys() == table.ROWS.keys() - table.NOT_MEASURED.keys()
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


def test_an_aim_without_all_its_figures_is_neither_reached_nor_missed(table):
    own = {"speed_over_reference": 9.0, "median_s": 5e-6}
    results = {"echobuf, 256": own, "flashbax, 256": {"failed": "no JAX"}}
    assert table.reached("gpu_put_136_bytes", results) == "-"
    assert table.reached("gpu_put_host_time", results) == "yes"
    results["echobuf, 256"] = {**own, "median_s": 11e-6}
    assert table.reached("gpu_put_host_time", results) == "no"
    assert table.reached("gpu_put_and_draw", results) == "-"
