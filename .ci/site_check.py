"""Check the built site: `python .ci/site_check.py build/site`.

Links and anchors lead to what is there, every public name has an entry, pages fetch
nothing from other hosts, and, where Chromium is, no page is wider than a phone.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAMES = Path(__file__).parents[1] / "tests" / "public_api.txt"
PHONE = 390  # pixels
FETCHING = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=600000",
]


class Page(HTMLParser):
    """The links of a page, its anchors, and what it fetches.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.components: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link, an anchor, or a file that is fetched."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.components.add(given.get("data-md-component", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.fetched += [
            given[name] for t, name in FETCHING if t == tag and name in given
        ]
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.fetched.append(given["href"])


def broken(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Yield links to files and anchors that the site does not have."""
    for name, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or name == "404.html":
                continue
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(name), unquote(parts.path))
                if parts.path
                else name
            )
            if (site / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            if not (site / target).is_file():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and target in pages:
                known = pages[target].anchors | {"__codelineno", ""}
                if unquote(parts.fragment) not in known:
                    yield f"{name}: {link} leads to no anchor"


def without_entry(pages: dict[str, Page]) -> Iterator[str]:
    """Yield the public names that no page has an entry for."""
    shown = set().union(*(page.anchors for page in pages.values()))
    names = re.findall(r"^(?:class|def) (echobuf[\w.]*)", NAMES.read_text(), re.M)
    if len(names) < 90:  # a file of another form
        yield f"{NAMES} names only {len(names)} names"
    for name in names:
        if name not in shown:
            yield f"{name} has no entry in the API"


def fetched_elsewhere(pages: dict[str, Page]) -> Iterator[str]:
    """Yield what pages fetch from other hosts."""
    for name, page in pages.items():
        for link in page.fetched:
            if urlsplit(link).netloc:
                yield f"{name} fetches {link}"
        if "source" in page.components:  # the theme's script asks GitHub for stars
            yield f"{name} fetches from https://api.github.com"


MEASURE = """<!doctype html><title>widths</title><body><pre id="widths"></pre><script>
const pages = PAGES, widths = {};
async function measure(page) {
  const frame = document.createElement("iframe");
  frame.style = "width: WIDTHpx; height: 844px; border: 0";
  frame.src = "/" + page;
  await new Promise((done) => { frame.onload = done; document.body.append(frame); });
  await new Promise((done) => setTimeout(done, 50));
  const root = frame.contentDocument.documentElement;
  const sees = (each) => frame.contentWindow.getComputedStyle(each).overflowX;
  const scrolls = (each) =>
    each && each !== root && (sees(each) !== "visible" || scrolls(each.parentElement));
  let right = Math.max(root.scrollWidth, frame.contentDocument.body.scrollWidth);
  for (const each of frame.contentDocument.querySelectorAll("article *")) {
    const edge = Math.floor(each.getBoundingClientRect().right);
    if (edge > right && !scrolls(each.parentElement)) right = edge;
  }
  widths[page] = [root.clientWidth, right];
  frame.remove();
}
(async () => {
  for (const page of pages) await measure(page);
  document.getElementById("widths").textContent = JSON.stringify(widths);
})();
</script>"""


NO_SEARCH = '{"config": {"lang": ["en"], "separator": "", "pipeline": []}, "docs": []}'


def too_wide(site: Path, pages: dict[str, Page], chromium: str) -> Iterator[str]:
    """Yield the pages that a phone would have to scroll sideways.

    Chromium renders each in a frame as wide as a phone, all in one run.
    """
    text = MEASURE.replace("PAGES", json.dumps(sorted(pages)))
    text = text.replace("WIDTH", str(PHONE))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/widths":
                self.send("text/html", text)
            elif self.path.endswith("/search_index.json"):
                # Each page would read all of it and index it again, for no width.
                self.send("application/json", NO_SEARCH)
            else:
                super().do_GET()

        def send(self, kind: str, body: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(site))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/widths"
        done = subprocess.run(
            [chromium, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        server.shutdown()
    found = re.search(r'<pre id="widths">(.*?)</pre>', done.stdout, re.DOTALL)
    widths = json.loads(html.unescape(found[1])) if found and found[1] else {}
    if set(widths) != set(pages):
        yield f"Chromium measured {len(widths)} of {len(pages)}: {done.stderr[-500:]}"
    for page, (has, needs) in widths.items():
        if has != PHONE or needs > PHONE:
            yield f"{page} is {needs} pixels wide on a screen of {has}"


def main(site: Path) -> int:
    """Print what is wrong with a site, and return the exit status."""
    files = sorted(site.rglob("*.html"))
    pages = {file.relative_to(site).as_posix(): Page(file) for file in files}
    wrong = [*broken(site, pages), *without_entry(pages), *fetched_elsewhere(pages)]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium:
        wrong += too_wide(site, pages, chromium)
    else:
        print("no Chromium here: the width of pages was not checked")
    print(
        f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links"
    )
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
