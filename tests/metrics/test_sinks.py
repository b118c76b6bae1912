"""Sinks: what they write can be read again, by who reads it."""

import contextlib
import importlib
import io
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import echobuf
from echobuf.metrics import Monitor, Progress, Prometheus, TensorBoard, WandB

METRICS = {
    "echobuf/fresh": 1234567.0,
    "echobuf/served": 4000.0,
    "echobuf/effective_factor": 2.5,
    "echobuf/put_wait_s": 0.25,
    "echobuf/t_upstream_s": 3e-3,
    "echobuf/ratio": 3.75,
    "echobuf/wait_share": 0.125,
}
FIRST = {name: value for name, value in METRICS.items() if "ratio" not in name}


# ---- TensorBoard


def read_events(folder):
    """Points (step, value) by name, as TensorBoard reads them without TensorFlow."""
    stub = "tensorboard.compat.tensorflow_stub"
    files = pytest.importorskip(f"{stub}.pywrap_tensorflow")
    errors = importlib.import_module(f"{stub}.errors")
    protos = importlib.import_module("tensorboard.compat.proto.event_pb2")
    points = {}
    for path in sorted(folder.iterdir()):
        reader = files.PyRecordReader_New(str(path))
        with contextlib.suppress(errors.OutOfRangeError):  # the end
            while True:
                reader.GetNext()
                event = protos.Event.FromString(reader.record())
                for value in event.summary.value:
                    point = (event.step, value.simple_value)
                    points.setdefault(value.tag, []).append(point)
        reader.file_handle.close()
    return points


def test_tensorboard_reads_what_is_written_to_a_folder(tmp_path):
    pytest.importorskip("tensorboard")
    folder = tmp_path / "runs" / "one"
    sink = TensorBoard(folder)
    sink.write(1, FIRST)
    sink.write(7, METRICS)
    points = read_events(folder)  # while the sink is open
    assert points.keys() == METRICS.keys()
    assert points["echobuf/fresh"] == [(1, 1234567.0), (7, 1234567.0)]
    assert points["echobuf/ratio"] == [(7, 3.75)]
    assert points["echobuf/t_upstream_s"][1][1] == pytest.approx(3e-3)


def test_writing_to_a_folder_imports_no_framework(tmp_path):
    pytest.importorskip("tensorboard")
    code = (
        "import sys\nfrom echobuf.metrics import TensorBoard\n"
        f"TensorBoard({str(tmp_path)!r}).write(1, {{'a': 1.0}})\n"
        "print({'tensorflow', 'torch'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
    assert read_events(tmp_path) == {"a": [(1, 1.0)]}


def test_tensorboard_by_a_writer_of_ones_own():
    points = []

    class Writer:
        def add_scalar(self, *point):
            points.append(point)

    TensorBoard(Writer()).write(3, METRICS)
    assert points == [(name, value, 3) for name, value in METRICS.items()]
    with pytest.raises(echobuf.OptionError, match="`where` is 5"):
        TensorBoard(5)


# ---- Weights & Biases


def test_each_metric_gets_the_axis_of_steps_once():
    calls = []

    class Run:
        def define_metric(self, name, step_metric):
            calls.append((name, step_metric))

        def log(self, row):
            calls.append(row)

    sink = WandB(Run())
    sink.write(1, FIRST)
    sink.write(2, METRICS)
    rows = [call for call in calls if isinstance(call, dict)]
    assert rows == [{"echobuf/step": 1, **FIRST}, {"echobuf/step": 2, **METRICS}]
    defined = [call for call in calls if not isinstance(call, dict)]
    assert sorted(defined) == sorted((name, "echobuf/step") for name in METRICS)


def test_no_run_of_wandb_says_what_to_do(monkeypatch):
    with pytest.raises(echobuf.OptionError, match=r"`run` is 5.*wandb\.init\(\)"):
        WandB(5)


# ---- Prometheus


def parse(text):
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        family.name: (family.type, family.samples[0].name, family.samples[0].value)
        for family in parser.text_string_to_metric_families(text)
    }


def test_prometheus_is_served_what_was_written_last():
    pytest.importorskip("prometheus_client")
    sink = Prometheus(0)
    try:
        url = f"http://127.0.0.1:{sink.port}/metrics"

        def scrape():
            with urllib.request.urlopen(url) as answer:
                return parse(answer.read().decode())

        assert scrape() == {}
        sink.write(1, {"echobuf/fresh": 3.0})
        sink.write(2, METRICS)
        families = scrape()
    finally:
        sink.close()
    assert families["echobuf_fresh"] == ("counter", "echobuf_fresh_total", 1234567.0)
    waited = ("counter", "echobuf_put_wait_seconds_total", 0.25)
    assert families["echobuf_put_wait_seconds"] == waited
    upstream = ("gauge", "echobuf_t_upstream_seconds", 3e-3)
    assert families["echobuf_t_upstream_seconds"] == upstream
    assert families["echobuf_ratio"][0] == "gauge"
    assert len(families) == len(METRICS)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)
    sink.close()  # does nothing


def test_metrics_are_added_to_a_registry_and_taken_away():
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    client.Gauge("loss", "of the training", registry=registry).set(0.5)
    sink = Prometheus(registry=registry)
    sink.write(1, {"train/fresh": 2.0, "valid/wait_share": 0.5})
    assert registry.get_sample_value("train_fresh_total") == 2
    assert registry.get_sample_value("valid_wait_share") == 0.5
    assert registry.get_sample_value("loss") == 0.5
    sink.close()
    assert parse(client.generate_latest(registry).decode()).keys() == {"loss"}


def test_a_port_that_is_taken():
    pytest.importorskip("prometheus_client")
    first = Prometheus(0)
    try:
        for port in (first.port, 70000, "x"):
            with pytest.raises(echobuf.OptionError, match=f"`port` is {port!r}"):
                Prometheus(port)
    finally:
        first.close()


# ---- the line


def console(**kwargs):
    rich = pytest.importorskip("rich.console")
    out = io.StringIO()
    return out, rich.Console(file=out, width=80, legacy_windows=False, **kwargs)


def test_a_line_for_each_write_where_there_is_no_terminal():
    out, where = console()
    sink = Progress(where)
    sink.write(1, FIRST)
    sink.write(12345, METRICS)
    sink.end()
    first, second = out.getvalue().splitlines()
    assert first.startswith("step 1 ")
    assert "R -" in first
    assert second == (
        "step 12,345  fresh 1.235M  served 4k  e 2.50  R 3.75  waiting 12.5%"
    )


def test_one_line_that_changes_on_a_terminal():
    out, where = console(force_terminal=True)
    sink = Progress(where)
    for _ in range(2):
        sink.write(1, FIRST)
        sink.write(2, METRICS)
        sink.end()
    text = out.getvalue()
    assert text.count("\n") == 2  # at the end of each loop
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor is back
    assert "R 3.75" in text
    sink.end()


# ---- ranges


def test_ranges_of_nvtx_around_each_draw_and_each_step(monkeypatch):
    nvtx = pytest.importorskip("nvtx")
    calls = []

    class Range:
        def __init__(self, name, domain):
            assert domain == "echobuf"
            self.name = name

        def __enter__(self):
            calls.append(self.name)

        def __exit__(self, *error):
            calls.append(f"/{self.name}")

    loader = echobuf.EchoLoader(list(np.arange(4)), batch_size=2, window=2, factor=1)
    assert len(list(Monitor(loader, nvtx=True))) == 2  # with the real ones
    monkeypatch.setattr(nvtx, "annotate", Range)
    for _ in Monitor(loader, nvtx=True):
        calls.append("train")
    turn = ["next_batch", "/next_batch", "step", "train", "/step"]
    assert calls == [*turn, *turn, "next_batch", "/next_batch"]


# ---- what is not installed


@pytest.mark.parametrize(
    ("module", "package", "make"),
    [
        ("tensorboard", "tensorboard", TensorBoard),
        ("wandb", "wandb", lambda folder: WandB()),
        ("prometheus_client", "prometheus-client", lambda folder: Prometheus(0)),
        ("rich.live", "rich", lambda folder: Progress()),
        (
            "nvtx",
            "nvtx",
            lambda folder: Monitor(
                echobuf.EchoLoader([], batch_size=1, window=1), nvtx=True
            ),
        ),
    ],
)
def test_a_missing_package_is_named(module, package, make, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(echobuf.MissingPackageError, match=f"pip install {package} "):
        make(tmp_path)
