"""Hooks of the site's build: links out of docs/, pictures, and the order of pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((\.\./[^)\s#]+)(#[^)\s]*)?\)")
NAMED = re.compile(r"\[`?(?:docs/)?([a-z_/]+\.md)`?\]\(([a-z_/.]+\.md)(#[^)\s]*)?\)")
MENTION = re.compile(r"(?<![\w/\"])docs/([a-z_]+)\.md\b(?![^<]*</(?:a|code|pre)>)")
DIAGRAM = re.compile(
    r"^```mermaid\nstateDiagram-v2\n(.*?)^```", re.DOTALL | re.MULTILINE
)
ARROW = re.compile(r"^ *(\S+) --> (\S+)(?: : (.*))?$", re.MULTILINE)
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
PICTURES = "pictures"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave pages out of the menu that docs/ does not have.

    A page whose name is misspelt in the menu is still found: it is in no menu then,
    which is a warning.
    """
    config.nav = list(existing(config.nav or [], Path(config.docs_dir)))
    return config


def existing(entries: list[Any], folder: Path) -> Iterator[Any]:
    """Yield the entries of a menu, or of a part of it, whose files exist."""
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield {name: list(existing(value, folder)) for name in entry}
        elif (folder / value).is_file():
            yield entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures that pages show from elsewhere in the repository."""
    from mkdocs.structure.files import File

    shown = {
        target
        for page in files.documentation_pages()
        for target in pictures_of(page.src_uri, page.content_string)
    }
    for target in sorted(shown):
        uri = f"{PICTURES}/{Path(target).name}"
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def pictures_of(uri: str, text: str) -> Iterator[str]:
    """Yield the paths, from the root of the repository, of pictures outside docs/."""
    for match in LINK.finditer(text):
        if match[1] and not (path := repository_path(uri, match[3])).startswith("docs"):
            yield path


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Lead links out of docs/ to the repository, and pictures to their copies.

    A link whose text is the name of a page gets the title of that page. Searches find
    the API before the pages that mention it.
    """
    if page.file.src_uri.startswith("api/"):
        page.meta.setdefault("search", {"boost": 2})

    def retitled(match: re.Match[str]) -> str:
        folder = posixpath.dirname(page.file.src_uri)
        target = files.get_file_from_path(
            posixpath.normpath(f"{folder}/{match[2]}".lstrip("/"))
        )
        title = title_of(target.content_string) if target else match[1]
        return f"[{title}]({match[2]}{match[3] or ''})"

    markdown = DIAGRAM.sub(lambda match: table_of(match[1]), markdown)
    parts = FENCE.split(markdown)  # code comes at the odd places
    parts[::2] = [
        NAMED.sub(retitled, redirected(part, page.file.src_uri, config))
        for part in parts[::2]
    ]
    return "".join(parts)


def table_of(diagram: str) -> str:
    """Return the transitions of a state diagram as a table.

    GitHub draws the diagram; here its script would come from another host.
    """
    rows = ["| from | to | when |", "| --- | --- | --- |"]
    for start, end, when in ARROW.findall(diagram):
        names = ("the start" if each == "[*]" else f"*{each}*" for each in (start, end))
        rows.append(" | ".join(["", *names, when, ""]).strip())
    return "\n".join(rows)


def title_of(text: str) -> str:
    """Return the title of a page."""
    found = re.search(r"^# (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of the pages that docstrings mention by their paths."""

    def linked(match: re.Match[str]) -> str:
        target = files.get_file_from_path(f"{match[1]}.md")
        if target is None:
            return match[0]
        url = target.url_relative_to(page.file)
        return f'<a href="{url}">{title_of(target.content_string)}</a>'

    return MENTION.sub(linked, html)


def redirected(text: str, uri: str, config: MkDocsConfig) -> str:
    """Return text of a page with its links out of docs/ redirected."""

    def redirect(match: re.Match[str]) -> str:
        path = repository_path(uri, match[3])
        if path.startswith("docs/"):
            return match[0]
        if match[1]:
            up = posixpath.relpath(PICTURES, posixpath.dirname(uri) or ".")
            return f"![{match[2][1:-1]}]({up}/{posixpath.basename(path)})"
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        target = f"{config.repo_url}/{kind}/main/{path}".replace("//blob", "/blob")
        return f"{match[2]}({target.replace('//tree', '/tree')}{match[4] or ''})"

    return LINK.sub(redirect, text)


def repository_path(uri: str, target: str) -> str:
    """Return the path of a link's target from the root of the repository.

    Raises:
        PluginError: it does not exist.
    """
    from mkdocs.exceptions import PluginError

    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), target))
    if not (ROOT / path).exists():
        raise PluginError(f"docs/{uri} links to {path}, which does not exist.")
    return path
