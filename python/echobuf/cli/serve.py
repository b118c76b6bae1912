"""`echobuf serve`: one upstream, prepared once for several jobs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from echobuf.cli import (
    CommandError,
    UsageError,
    exit_on_interrupt,
    sigterm_as_interrupt,
)
from echobuf.cli.arguments import (
    call_target,
    load_target,
    whole_number,
    with_option_names,
)
from echobuf.errors import EchobufError, OptionError, describe

if TYPE_CHECKING:
    from echobuf.serve import Server

_OF_SERVER = (  # the options that are arguments of `Server`
    *("window", "lag", "spill", "jobs", "epochs", "lease"),
    *("num_workers", "payload_bytes"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "upstream",
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
    target = options.upstream
    with exit_on_interrupt():  # imports of frameworks take seconds
        upstream = load_target(target)
    if callable(upstream) and not (
        hasattr(upstream, "__iter__") or hasattr(upstream, "__len__")
    ):
        upstream = call_target(upstream, target, "an upstream")
    name = options.name
    if name is None:
        name = target.rpartition(":")[2].rpartition(".")[2]
    with sigterm_as_interrupt():
        return _serve(upstream, name, options)


def _serve(upstream: Any, name: str, options: argparse.Namespace) -> int:
    from echobuf.serve import Server, address

    server: Server | None = None
    try:  # jobs may attach before the server is made
        arguments = {each: getattr(options, each) for each in _OF_SERVER}
        server = Server(upstream, name, **arguments)
        print(
            f"serving {name!r}; in a job: "
            f"`EchoLoader(echobuf.serve.attach({name!r}), ...)`",
            flush=True,
        )
        server.wait()
    except EchobufError as error:
        kind = CommandError
        if server is None and isinstance(error, OptionError):
            kind = UsageError
        raise kind(with_option_names(error, options.option_names)) from None
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
