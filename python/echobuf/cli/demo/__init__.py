"""`echobuf demo`: one training task, with and without echoing, measured.

Handwritten digits come as PNG files from an HTTP server with a bandwidth limit, are
decoded and distorted on the CPU, and train a small network: an input that is really
slower than the training. Modules, in the order in which the data flows: `settings`,
`data`, `server` (a separate process), `upstream`, `training`, `report`, `session`.
"""

from __future__ import annotations

import argparse
import math

from echobuf.cli import exit_on_interrupt, require
from echobuf.cli.arguments import number_that
from echobuf.cli.demo.settings import Settings
from echobuf.cli.output import add_json_option, add_out_option, make_output_folder

_NEEDED = {
    "torch": "torch",
    "rich": "rich",
    "matplotlib": "matplotlib",
    "PIL": "Pillow",
    "sklearn": "scikit-learn",
}
_DEFAULT = Settings()
_SEEDS = 2**63
_target = number_that(lambda value: 0 < value < 1, "between 0 and 1")
# Below 1 kB/s one batch takes longer than a run may.
_bandwidth = number_that(
    lambda value: 1 <= value < math.inf, "a number of kB/s, at least 1"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the demo."""
    parser.epilog = (
        "Trains a small network on handwritten digits to a given test accuracy, "
        "four times: without echoing, with batch echoing, with example echoing, and "
        "with example echoing before augmentation (each echo distorted anew). The "
        "digits come from a web server with a bandwidth limit, so that loading is "
        "slower than training. Takes about one to two minutes on two cores."
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=_DEFAULT.seed,
        help="seeds weights, order and distortions (default: %(default)s)",
    )
    parser.add_argument(
        "--target",
        type=_target,
        default=_DEFAULT.target,
        help="test accuracy to reach, between 0 and 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--bandwidth",
        type=_bandwidth,
        metavar="KB_S",
        help="bandwidth of the web server in kB/s, 1000 bytes a second (default: "
        f"measured and set so that R is about {_DEFAULT.ratio:g})",
    )
    add_out_option(parser, _DEFAULT.out, "the picture and the JSON file")
    parser.add_argument(
        "--no-progress",
        dest="progress",
        action="store_false",
        help="print the result only",
    )
    add_json_option(parser, "what demo.json holds")


def run(options: argparse.Namespace) -> int:
    """Run the demo."""
    require("demo", _NEEDED)
    make_output_folder(options.out)
    with exit_on_interrupt():  # these imports take seconds
        from echobuf.cli.demo.session import run_demo

    settings = Settings(
        seed=options.seed,
        target=options.target,
        bandwidth_kb_s=options.bandwidth,
        out=options.out,
        progress=options.progress,
    )
    run_demo(settings, options.command_line, in_json=options.json)
    return 0


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not an integer: {text!r}") from None
    if not 0 <= value < _SEEDS:
        raise argparse.ArgumentTypeError(f"must be from 0 to 2**63 - 1, not {text}")
    return value
