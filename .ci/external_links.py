"""Ask whether the links to other hosts answer: `.ci/external_links.py [FILE ...]`.

It is not a part of CI, which needs no network here: run it before a release. Without
files it reads all Markdown, Python and configuration files of the repository. It prints
each link that does not answer, and exits with 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
URL = re.compile(r"https?://[^\s)\]>\"'`{}|\\]+")
NOT_LINKS = ("localhost", "127.0.0.1", "example.", "0.0.0.0", "www.w3.org")
TIMEOUT_S = 20
REFUSED = {401, 403, 405, 429}  # a host that answers, but not to a script


def files_of_the_repository() -> list[Path]:
    """Return the files under version control that have links."""
    names = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.toml", "*.yml", "*.cff"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [ROOT / name for name in names if not name.startswith("tests/")]


def links_of(files: Iterable[Path]) -> dict[str, Path]:
    """Return the links in files, each with the first file that has it."""
    found: dict[str, Path] = {}
    for file in files:
        for url in URL.findall(file.read_text(encoding="utf-8")):
            bare = url.partition("#")[0].rstrip(".,;:")
            if not any(each in bare for each in NOT_LINKS):
                found.setdefault(bare, file)
    return found


def problem_of(url: str) -> str:
    """Return why a link does not answer, empty if it does."""
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as error:
        return "" if error.code in REFUSED else f"{error.code} {error.reason}"
    except (OSError, ValueError) as error:
        return str(error)


def main(names: list[str]) -> int:
    """Print the links that do not answer, and return the exit status."""
    links = links_of(map(Path, names) if names else files_of_the_repository())
    with ThreadPoolExecutor(8) as pool:
        problems = list(pool.map(problem_of, links))
    for (url, file), problem in zip(links.items(), problems, strict=True):
        if problem:
            print(f"{file}: {url}: {problem}")
    print(f"{len(links)} links, {sum(map(bool, problems))} without an answer")
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
