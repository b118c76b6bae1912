"""Mutation runs: which small faults in a module do its tests not see?

    python tests/mutation/mutate.py cache/disk.py cache/memory.py --sample 60 --seed 1

Modules are files or folders of the package, which is found as `import echobuf` finds it
and stays as it is: mutants lie in a copy of these modules, before it in `PYTHONPATH`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from concerns import tests_of
from mutants import Mutant, mutants_of
from overlay import Overlay
from trial import Trials

_ROOT = Path(__file__).resolve().parents[2]
_EXPLAINED = Path(__file__).resolve().parent / "explained.json"
_BASELINE_S = 1800.0
_GIB = 1 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if a mutant survived that none explains."""
    options = _parse(arguments)
    package = options.package_folder or _folder_of(options.package)
    modules = _modules(package, options.modules)
    chosen = _choose(package, modules, options)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.place}: {mutant.kind}\n{_indented(mutant.change)}")
        print(f"{len(chosen)} mutants")
        return 0
    tests = options.tests or sorted(
        {test for module in modules for test in tests_of(module, options.root)}
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        (Path(folder) / "site").mkdir()
        overlay = Overlay(Path(folder) / "site", package, modules)
        trials = Trials(
            options.root,
            overlay.folder,
            tests,
            scratch=Path(folder),
            memory_bytes=options.memory_gib * _GIB,
        )
        results = _try_all(chosen, modules, overlay, trials, options)
    return _report(results, options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("modules", nargs="+", help="files and folders of the package")
    parser.add_argument("--sample", type=int, help="try so many mutants, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--at", action="append", help="only mutants at FILE:LINE")
    parser.add_argument("--tests", nargs="+", help="in place of those in concerns.py")
    parser.add_argument("--limit-s", type=float, help="begin no mutant after that")
    parser.add_argument(
        "--without-slow-s",
        type=float,
        metavar="S",
        help="leave out tests that took longer without a mutant",
    )
    parser.add_argument(
        "--only-covering",
        action="store_true",
        help="leave out tests that do not run the line, where others do; those that "
        "run it in another process are not known to",
    )
    parser.add_argument("--list", action="store_true", help="show mutants, try none")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    parser.add_argument("--memory-gib", type=int, default=16, help="of a process")
    parser.add_argument("--package", default="echobuf")
    parser.add_argument("--package-folder", type=Path, help="where it is, if not there")
    parser.add_argument("--root", type=Path, default=_ROOT, help="where tests run")
    return parser.parse_args(arguments)


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            f"no package {package!r} is found; install it, or set its path"
        )
    return Path(spec.submodule_search_locations[0])


def _modules(package: Path, names: Sequence[str]) -> list[str]:
    """Return the paths of modules in the package; folders are all that is in them."""
    found: dict[str, None] = {}
    for name in names:
        at = package / name
        files = sorted(at.rglob("*.py")) if at.is_dir() else [at]
        if not files or not files[0].exists():
            raise SystemExit(f"{name!r} is no module of {package}")
        found.update({str(file.relative_to(package)): None for file in files})
    return list(found)


def _choose(
    package: Path, modules: Sequence[str], options: argparse.Namespace
) -> list[Mutant]:
    mutants = [
        mutant
        for module in modules
        for mutant in mutants_of(module, (package / module).read_text())
        if not options.at or mutant.place in options.at
    ]
    if options.sample is not None and options.sample < len(mutants):
        return random.Random(options.seed).sample(mutants, options.sample)
    return mutants


def _try_all(
    chosen: Sequence[Mutant],
    modules: Sequence[str],
    overlay: Overlay,
    trials: Trials,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    begin = time.monotonic()
    baseline = trials.baseline([overlay.path(m) for m in modules], _BASELINE_S)
    _say(f"{len(baseline.tests)} tests pass in {baseline.seconds:.0f} s")
    if options.without_slow_s is not None:
        baseline = baseline.without(options.without_slow_s)
        _say(f"{len(baseline.left_out)} of them are left out, which took longer")
    explained = _explained()
    results = []
    for number, mutant in enumerate(chosen, start=1):
        if options.limit_s and time.monotonic() - begin > options.limit_s:
            _say(f"{len(chosen) - number + 1} mutants are left: the time is over")
            break
        started = time.monotonic()
        overlay.write(mutant.path, mutant.mutated)
        outcome = trials.mutant(
            baseline,
            overlay.path(mutant.path),
            mutant.line,
            only_covering=options.only_covering,
        )
        overlay.write(mutant.path, mutant.original)
        result = {
            "place": mutant.place,
            "kind": mutant.kind,
            "change": mutant.change,
            "outcome": "survived" if outcome.name == "passed" else outcome.name,
            "why": explained.get((mutant.path, mutant.change)),
            "output": outcome.output[-4000:] if outcome.name == "broken" else "",
        }
        results.append(result)
        _say(
            f"{number}/{len(chosen)} {result['outcome']} {mutant.place}: {mutant.kind} "
            f"({time.monotonic() - started:.0f} s)"
        )
        if result["outcome"] not in ("failed", "timeout"):
            _say(_indented(f"{mutant.change}\n{result['output']}".rstrip()))
    return results


def _explained() -> dict[tuple[str, str], str]:
    """The reason, by module and change, why a mutant is not seen."""
    entries = json.loads(_EXPLAINED.read_text()) if _EXPLAINED.exists() else []
    return {
        (entry["module"], "\n".join(entry["change"])): entry["why"] for entry in entries
    }


def _report(results: Sequence[dict[str, Any]], options: argparse.Namespace) -> int:
    counts = Counter(result["outcome"] for result in results)
    survivors = [result for result in results if result["outcome"] == "survived"]
    open_ones = [result for result in survivors if result["why"] is None]
    for result in survivors:
        print(f"\nsurvived {result['place']}: {result['kind']}")
        print(_indented(result["change"]))
        if result["why"] is not None:
            print(f"  explained: {result['why']}")
    killed = counts["failed"] + counts["timeout"]
    tried = killed + counts["survived"]
    share = 100 * killed / tried if tried else 100.0
    print(
        f"\nscore {share:.0f}%: {killed} of {tried} mutants killed "
        f"({counts['timeout']} by time), {counts['survived']} survived, "
        f"{len(survivors) - len(open_ones)} of them explained; {counts['broken']} were "
        f"not tried (seed {options.seed})"
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if open_ones or counts["broken"] else 0


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
