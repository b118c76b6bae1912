#!/usr/bin/env bash
# spdl 0.8.0: a pipeline leaves out items without a word to the loop
#
# An item for which a step raises is logged and left out; so is one for which a step returns
# None. The loop ends as if all had come. With concurrency above 1 the rest comes in the
# order in which it is ready; and a second loop over the same pipeline yields nothing.
#
# Seen: raised for 5 [0, 1, 2, 3, 4, 6, 7]; None for 3 [0, 1, 2, 4, 5, 6, 7]
#       second loop []
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q spdl==0.8.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import logging

from spdl.pipeline import PipelineBuilder

logging.disable()


def fails_at_5(i):
    if i == 5:
        raise ValueError(i)
    return i


def none_at_3(i):
    return None if i == 3 else i


def pipeline(step):
    return PipelineBuilder().add_source(range(8)).pipe(step).add_sink(4).build(
        num_threads=1
    )


for step, left_out in ((fails_at_5, 5), (none_at_3, 3)):
    items = pipeline(step)
    with items.auto_stop():
        got = list(items)
        again = list(items)
    print(step.__name__, got, "second loop", again)
    assert got == [i for i in range(8) if i != left_out]
    assert again == []
PYTHON
