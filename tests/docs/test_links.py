"""Links in Markdown: files, headings and pictures that they lead to exist."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "docs", "examples", "experiments", ".github")
REPOSITORY = "https://github.com/echobuf/echobuf"
RAW = "https://raw.githubusercontent.com/echobuf/echobuf/main/"
SITE = "https://echobuf.github.io/echobuf/"
FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
SUFFIXES = (".png", ".svg", ".jpg", ".gif")

pytestmark = pytest.mark.host


def pages() -> list[Path]:
    below = [page for each in FOLDERS for page in (ROOT / each).rglob("*.md")]
    found = sorted([*ROOT.glob("*.md"), *below])
    assert len(found) > 30
    return found


def problems(page: Path, text: str) -> Iterator[str]:
    """Yield what is wrong with the links of a page."""
    for picture, target in LINK.findall(FENCE.sub("", text)):
        if target.startswith(("mailto:", "http://", "https://")):
            problem = problem_of_url(target, is_picture=bool(picture))
        else:
            problem = problem_of_relative(page, text, target)
            if picture and not target.endswith(SUFFIXES):
                problem = "is no picture"
        if problem:
            yield f"{target} {problem}"


def problem_of_relative(page: Path, text: str, target: str) -> str:
    """Return what is wrong with a link relative to a page, empty if nothing is."""
    path, _, anchor = target.partition("#")
    if not path:
        return "" if anchor in anchors_in(text) else "leads to no heading"
    return problem_of_file((page.parent / unquote(path)).resolve(), anchor)


def problem_of_url(url: str, *, is_picture: bool) -> str:
    """Return what is wrong with an absolute link to this project; others pass."""
    anchor = urlsplit(url).fragment
    bare = url.partition("#")[0]
    if bare.startswith(RAW):
        return problem_of_file(ROOT / bare.removeprefix(RAW), "")
    if is_picture:
        return ""
    if found := re.match(rf"{REPOSITORY}/(?:blob|tree)/main/(.*)", bare):
        return problem_of_file(ROOT / found[1], anchor)
    if bare.startswith(SITE):
        name = bare.removeprefix(SITE).strip("/") or "index"
        file = ROOT / "docs" / f"{name}.md"
        folder = ROOT / "docs" / name / "index.md"
        return problem_of_file(file if file.exists() else folder, anchor)
    return ""


def problem_of_file(file: Path, anchor: str) -> str:
    """Return what is wrong with a link to a file, empty if nothing is."""
    if not file.exists() or ROOT not in (file, *file.parents):
        return "does not exist"
    if anchor and file.suffix == ".md" and anchor not in anchors_of(file):
        return "leads to no heading"
    return ""


@functools.cache
def anchors_of(page: Path) -> set[str]:
    return anchors_in(page.read_text(encoding="utf-8"))


def anchors_in(text: str) -> set[str]:
    """Return the anchors of a page, as GitHub makes them, and of the names it shows."""
    found: set[str] = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    for title in re.findall(r"^#{1,6} +(.*?) *#*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title)
        kept = "".join(
            each
            for each in unicodedata.normalize("NFC", plain).lower()
            if each.isalnum() or each in "-_ "
        )
        base = anchor = kept.replace(" ", "-")
        count = 0
        while anchor in found:
            count += 1
            anchor = f"{base}-{count}"
        found.add(anchor)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_exists(page):
    assert list(problems(page, page.read_text(encoding="utf-8"))) == []
