"""Examples of the API: every public name has one, and each one runs as it is shown."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import echobuf
import markdown
import public_api
from api_examples import docstrings, examples_in, run
from echobuf.cli.main import main

PAGES = Path(__file__).parents[2] / "docs" / "api"
FRAMEWORKS = {
    "echobuf.accelerate": "accelerate",
    "echobuf.cache.distributed": "torch",
    "echobuf.jax": "jax",
    "echobuf.torch": "torch",
}
RETURNS_NOTHING = {"echobuf.warmup"}

pytestmark = [
    pytest.mark.host,
    # Of forks beside threads: the child of an example does nothing but raise.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def import_or_skip(module: str) -> ModuleType:
    if module in FRAMEWORKS:
        pytest.importorskip(FRAMEWORKS[module])
    return importlib.import_module(module)


def public_names() -> list[str]:
    """Return the public names, but members, without importing any framework."""
    text = (Path(__file__).parents[1] / "public_api.txt").read_text()
    found = re.findall(r"^(?:class |def )?(echobuf[\w.]*)", text, re.MULTILINE)
    assert len(found) >= 100
    return found


NAMES = public_names()


def the_object(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_or_skip(module), attribute)


def texts_of(name: str) -> list[tuple[str, str]]:
    """Return the names and texts that have a public name's examples."""
    value = the_object(name)
    if isinstance(value, str):  # which has no docstring of its own
        return [(name, shown_on(PAGES / "index.md"))]
    return list(docstrings(name, value))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_examples_that_run_as_they_are_shown(name):
    examples: list[doctest.Example] = []
    for path, text in texts_of(name):
        examples += examples_in(text)
        assert not run(text, path)
    assert examples
    shows = any(example.want or example.exc_msg for example in examples)
    assert shows or name in RETURNS_NOTHING
    examples += examples_in(inspect.getdoc(echobuf.UpstreamError) or "")  # of `fail`
    code = "".join(example.source for example in examples)
    assert not [
        each for each in methods_of(the_object(name)) if f".{each}(" not in code
    ]


def methods_of(value: Any) -> list[str]:
    """Return the methods that callers call: those of operations are for chains."""
    if not inspect.isclass(value) or issubclass(value, echobuf.transforms.Operation):
        return []
    members = public_api.members_of(value)
    return [name for name, member in members.items() if inspect.isfunction(member)]


def test_errors_are_provoked():
    errors = [
        name
        for name in NAMES
        if name.startswith("echobuf.") and name.count(".") == 1 and "Error" in name
    ]
    assert len(errors) > 10
    for name in errors:
        shown = inspect.getdoc(the_object(name)) or ""
        short = name.partition(".")[2]
        assert f"errors.{short}:" in shown or f"except {name}" in shown, name


# ---- pages


def pages() -> str:
    texts = [path.read_text() for path in sorted(PAGES.glob("*.md"))]
    assert len(texts) > 15
    return "\n".join(texts)


def test_every_public_name_is_on_one_page_of_the_api():
    shown = re.findall(r"^::: (\S+)$", pages(), re.MULTILINE)
    # tests/slow/frameworks looks for these.
    slow = ("echobuf.keras.", "echobuf.transformers.")
    shown = [name for name in shown if not name.startswith(slow)]
    documented = [name for name in NAMES if name != "echobuf.__version__"]
    assert sorted(shown) == sorted(documented)


def shown_on(page: Path) -> str:
    """Return the examples of a page, as one text."""
    return "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))


@pytest.mark.parametrize("name", ["index", "ranks", "upstreams"])
def test_examples_of_pages_run(name):
    if name == "ranks":
        pytest.importorskip("torch")
    text = shown_on(PAGES / f"{name}.md")
    assert examples_in(text)
    assert not run(text, name)


def test_no_other_page_has_examples():
    has = [page.stem for page in sorted(PAGES.glob("*.md")) if shown_on(page)]
    assert has == ["index", "ranks", "upstreams"]


def test_the_page_of_commands_names_those_that_there_are(capsys):
    text = (PAGES / "cli.md").read_text()
    lines = re.findall(r"^\$ echobuf (.*)$", text, re.MULTILINE)
    assert len(lines) > 3
    named = {line.split()[0] for line in re.findall(r"^\| `echobuf (.*?)`", text, re.M)}
    for line in [*lines, *named]:
        command = [word for word in line.split()[:1] if word[0] != "-"]
        assert main([*command, "--help"]) == 0
        help_of_it = capsys.readouterr().out
        assert all(word in help_of_it for word in line.split() if word[:2] == "--")
    main(["--help"])
    there_are = re.findall(r"^    ([a-z-]+)(?: |$)", capsys.readouterr().out, re.M)
    assert named == set(there_are)


def test_the_page_of_headers_shows_lines_of_the_trainer():
    (block,) = markdown.blocks(PAGES / "cpp.md", "cmake")
    trainer = PAGES.parents[1] / "examples" / "cpp_trainer" / "CMakeLists.txt"
    assert set(block.splitlines()) <= set(trainer.read_text().splitlines())
