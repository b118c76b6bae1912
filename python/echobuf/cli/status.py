"""`echobuf status`: the state of a server and its jobs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from echobuf.cli import CommandError, UsageError, require
from echobuf.cli.arguments import with_option_names
from echobuf.cli.output import print_json
from echobuf.errors import EchobufError, OptionError

if TYPE_CHECKING:
    from echobuf.serve import Status


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="of the server; all names unless given"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON; a list without NAME"
    )


def run(options: argparse.Namespace) -> int:
    """Print the server's status, or the names of all servers."""
    from echobuf import serve

    try:
        names = serve.names() if options.name is None else []
        status = serve.status(options.name) if options.name is not None else None
    except OptionError as error:
        raise UsageError(with_option_names(error, options.option_names)) from None
    except EchobufError as error:
        raise CommandError(str(error)) from None
    if options.json:
        print_json(names if status is None else asdict(status))
    elif status is None:
        print("\n".join(names) or "there is no server")
    else:
        _print(status)
    return 0


def _print(status: Status) -> None:
    require("serve", {"rich": "rich"})
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("job")
    for name in ("process", "epoch", "fresh/s", "lag", "held", "silent s"):
        table.add_column(name, justify="right")
    for job in status.jobs:
        table.add_row(
            Text(job.job),
            str(job.process),
            f"waits for {job.epoch}" if job.waiting else str(job.epoch),
            f"{job.rate:,.0f}",
            f"{job.lag:,}",
            f"{job.held:,}",
            f"{job.silent_s:.1f}",
        )
    state = "is in" if status.running else "waits to begin"
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{status.name} (process {status.process}) {state} epoch {status.epoch}: "
        f"{status.rate:,.0f} fresh/s, {status.published:,} in all, "
        f"{status.slots:,} slots",
        markup=False,
    )
    console.print(f"examples: {status.spec}", markup=False)
    if status.jobs:
        console.print(table)
    else:
        console.print("no job is attached", markup=False)
