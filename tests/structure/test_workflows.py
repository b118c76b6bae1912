"""The workflows name scripts that exist, ask for few permissions, and end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text())


def jobs() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path.stem, name, job)
        for path in WORKFLOWS
        for name, job in read(path)["jobs"].items()
    ]


def commands(job: dict[str, Any]) -> list[str]:
    """The `run` lines of a job, once for each value of its matrix."""
    found = [step["run"] for step in job.get("steps", []) if "run" in step]
    matrix = job.get("strategy", {}).get("matrix", {})
    for key, values in matrix.items():
        if key != "include":
            mark = "${{ matrix." + key + " }}"
            found = [line.replace(mark, str(v)) for line in found for v in values]
    return found


def scripts() -> set[str]:
    run = [line for _, _, job in jobs() for line in commands(job)]
    return {name for line in run for name in re.findall(r"\.ci/([\w.-]+)", line)}


def test_there_are_workflows():
    assert {"ci", "wheels", "release", "pages"} <= {path.stem for path in WORKFLOWS}


def test_every_script_that_a_workflow_names_exists():
    assert "run" in scripts()
    assert [name for name in scripts() if not (ROOT / ".ci" / name).exists()] == []


def test_every_program_of_ci_is_run_by_a_workflow():
    programs = {
        p.name for p in (ROOT / ".ci").iterdir() if not p.suffix and p.is_file()
    }
    assert programs <= scripts()


def test_permissions_are_named_and_only_publishing_may_ask_for_an_identity():
    for path in WORKFLOWS:
        assert read(path)["permissions"] == {"contents": "read"}, path
    asking = {
        (workflow, name)
        for workflow, name, job in jobs()
        if "write" in job.get("permissions", {}).values()
    }
    assert asking == {("release", "pypi"), ("release", "testpypi"), ("pages", "deploy")}


def test_every_job_ends_by_itself():
    for workflow, name, job in jobs():
        assert "timeout-minutes" in job or "uses" in job, (workflow, name)


def test_only_a_tag_that_was_pushed_goes_to_pypi():
    job = read(ROOT / ".github/workflows/release.yml")["jobs"]["pypi"]
    assert job["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    assert job["environment"]["name"] == "pypi"
