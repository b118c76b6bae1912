#!/usr/bin/env bash
# gluonts 0.17.0: len() of a transformed data set samples it anew, and is not its length
#
# A TransformedDataset counts its items by running the transformation to its end. With the
# random splitter that is meant for training the number of windows is random: each len() is
# another number, and none is that of the next loop.
#
# Seen, of 20 series: len 37, 43, 42, ...; items in loops 32, 42, 39, ...
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'gluonts[torch]==0.17.0' torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import pandas as pd
from gluonts.dataset.common import ListDataset
from gluonts.transform import ExpectedNumInstanceSampler, InstanceSplitter

start = pd.Period("2020-01-01", freq="D")
series = [{"start": start, "target": np.arange(40.0)} for _ in range(20)]
splitter = InstanceSplitter(
    target_field="target",
    is_pad_field="is_pad",
    start_field="start",
    forecast_start_field="forecast_start",
    instance_sampler=ExpectedNumInstanceSampler(num_instances=2, min_future=5),
    past_length=10,
    future_length=5,
)
windows = splitter.apply(ListDataset(series, freq="D"), is_train=True)
lengths = [len(windows) for _ in range(5)]
items = [sum(1 for _ in windows) for _ in range(5)]
print("len", lengths, "items", items)
assert len(set(lengths)) > 1
assert len(set(items)) > 1
PYTHON
