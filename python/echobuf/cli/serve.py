"""`echobuf serve`: one upstream, prepared once for several jobs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from echobuf.cli import CommandError, UsageError
from echobuf.cli.arguments import (
    call_target,
    load_target,
    whole_number,
    with_option_names,
)
from echobuf.cli.interrupt import exit_on_interrupt, sigterm_as_interrupt
from echobuf.errors import EchobufError, OptionError, describe

if TYPE_CHECKING:
    from echobuf.serve import Server

__all__ = ["configure", "run"]

_OPTIONS = {  # of the arguments of `Server`
    "upstream": "FILE:NAME",
    "name": "--name",
    "window": "--window",
    "lag": "--lag",
    "spill": "--spill",
    "jobs": "--jobs",
    "epochs": "--epochs",
    "lease": "--lease",
    "num_workers": "--num-workers",
    "payload_bytes": "--payload-bytes",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "target",
        metavar="FILE:NAME",
        help="a Python file, and the upstream in it, or a function that returns it",
    )
    parser.add_argument("--name", help="that jobs attach to; NAME unless given")
    parser.add_argument(
        "--window",
        type=whole_number,
        default=4096,
        help="the largest window that a job may have (default: %(default)s examples)",
    )
    parser.add_argument(
        "--lag",
        type=int,
        help="examples that the fastest job may be ahead of the slowest, beyond its "
        "window (default: --window)",
    )
    parser.add_argument("--spill", help="a folder: keep examples on that disk")
    parser.add_argument(
        "--jobs",
        type=whole_number,
        default=1,
        help="jobs to wait for before the first epoch (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=whole_number, help="epochs to serve (default: without end)"
    )
    parser.add_argument(
        "--lease",
        type=float,
        default=10.0,
        help="seconds of silence after which a job is dropped (default: %(default)s)",
    )
    parser.add_argument(
        "--num-workers",
        type=int,
        default=0,
        help="worker processes, for a map-style dataset (default: %(default)s)",
    )
    parser.add_argument(
        "--payload-bytes",
        type=whole_number,
        help="for examples that differ in length: the most bytes that their ragged "
        "leaves may take in a job's window",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until all epochs are served, or Ctrl-C or SIGTERM ends the server."""
    with exit_on_interrupt():  # imports of frameworks take seconds
        found = load_target(options.target)
    upstream = _made(found, options.target)
    with sigterm_as_interrupt():
        return _serve(upstream, options)


def _serve(upstream: Any, options: argparse.Namespace) -> int:
    name = options.name
    if name is None:
        name = options.target.rpartition(":")[2].rpartition(".")[2]
    from echobuf.serve import address

    server = None
    try:  # jobs may attach before the server is made
        server = _server(upstream, name, options)
        print(
            f"serving {name!r}; in a job: "
            f"`EchoLoader(echobuf.serve.attach({name!r}), ...)`",
            flush=True,
        )
        server.wait()
    except EchobufError as error:
        raise CommandError(with_option_names(error, _OPTIONS)) from None
    except OSError as error:
        raise CommandError(describe(error)) from None
    except KeyboardInterrupt:
        if address.JobMarker(address.base_path(name)).read() is not None:
            print("jobs wait for this server to come back", file=sys.stderr)
        if server is not None:
            server.close(restarting=True)
        raise
    server.close()
    return 0


def _server(upstream: Any, name: str, options: argparse.Namespace) -> Server:
    from echobuf.serve import Server

    try:
        return Server(
            upstream,
            name,
            window=options.window,
            lag=options.lag,
            spill=options.spill,
            jobs=options.jobs,
            epochs=options.epochs,
            lease=options.lease,
            num_workers=options.num_workers,
            payload_bytes=options.payload_bytes,
        )
    except OptionError as error:
        raise UsageError(with_option_names(error, _OPTIONS)) from None


def _made(found: Any, target: str) -> Any:
    if not callable(found) or hasattr(found, "__iter__") or hasattr(found, "__len__"):
        return found
    return call_target(found, target, "an upstream")
