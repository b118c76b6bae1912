"""A window of rollouts of 100 KB, from a generator in a process of its own.

The generator does no work but to copy one of a few rollouts that it has, so this is
what handing over costs: `examples/rollouts/generators.py`, with versions, and a loader
with one worker, which has none. Each rollout is used twice, in batches of 32, from a
window of 512. The reference is the same window filled and drawn from by one thread,
with rollouts that it finds in its cache. Required before it was measured: 0.9 of its
rate. "Generator and window" makes each rollout in that thread as the process does.

TorchRL's `ConsumingSampler` does the same with what is put by one thread, and by the
same generator process. Its newest release has no rate limiter; `torchrl.data` of its
development version has. How often each of 4,090 rollouts is used, also with
`prefetch=2`, stands in the result file, too. `--python torchrl=PATH` names the
interpreter that has TorchRL.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.report import figures, print_table, write_figures
from echobuf.cli.bench.rounds import measure
from running import make_parser, select
from sampling import HERE, RESULTS

TARGET = "peers.rollout_windows:"
GENERATORS = HERE.parent / "examples" / "rollouts"

QUESTION = Question(
    name="rollouts",
    unit="rollout",
    candidates=(
        Candidate("window, one thread", TARGET + "Window"),
        Candidate("window, put by a thread", TARGET + "ThreadedWindow"),
        Candidate("generator and window, one thread", TARGET + "PlayedWindow"),
        Candidate("window, generator process", TARGET + "GeneratedWindow"),
        Candidate("EchoLoader, one worker", TARGET + "Loader"),
        Candidate("TorchRL, one thread", "peers.torchrl_rollouts:Consuming"),
        Candidate("TorchRL, generator process", "peers.torchrl_rollouts:Generated"),
    ),
    reference="window, one thread",
    settings={
        "floats": 25_000,
        "window": 512,
        "batch": 32,
        "factor": 2,
        "rollouts": 4096,
        "limit_s": 0.5,
    },
    path=(HERE, GENERATORS),
)

USES = (
    ("echobuf", "peers.rollout_windows", {}),
    ("echobuf, prefetch=2", "peers.rollout_windows", {"prefetch": 2}),
    ("TorchRL, adding waits for room", "peers.torchrl_rollouts", {"waits": True}),
    ("TorchRL, adding does not wait", "peers.torchrl_rollouts", {"waits": False}),
    (
        "TorchRL, prefetch=2",
        "peers.torchrl_rollouts",
        {"waits": True, "prefetch": 2},
    ),
)
USED = {"floats": 8, "rollouts": 4090, "prefetch": 0}  # the last batch has 20


def uses(module: str, python: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return how often rollouts are used, or the error that says they are not."""
    settings = {**QUESTION.settings, **USED, **settings}
    code = (
        f"import json, sys; sys.path[:0] = {[str(p) for p in QUESTION.path]!r}\n"
        f"from {module} import uses\n"
        f"print(json.dumps(uses({settings!r})))"
    )
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, count uses, print both, and write the result file."""
    options = make_parser(__doc__, RESULTS).parse_args()
    chosen = select(QUESTION, options)
    # Rollouts of TorchRL's candidates come from the same generator's process.
    chosen = replace(chosen, settle_s=3.0)
    outcomes = measure(chosen, options.rounds)
    print_table(chosen, outcomes)
    pythons = {c.target.partition(":")[0]: c.python for c in chosen.candidates}
    counted = {}
    for name, module, settings in USES:
        python = pythons.get(module) or sys.executable
        counted[name] = uses(module, python, settings)
        print(f"{name}: {counted[name]}")
    content = {**figures(chosen, outcomes), "uses": counted}
    write_figures(QUESTION.name, Path(options.out), content)


if __name__ == "__main__":
    main()
