"""The parts of `echobuf demo`, and the whole of it with an easy target."""

# ruff: noqa: E402 (the imports that may be missing decide whether the tests can run)

import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

for _module in ("torch", "rich", "matplotlib", "PIL", "sklearn"):
    pytest.importorskip(_module, reason="needs the extra echobuf[demo]")

import torch
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from echobuf.cli.demo import calibration, data, picture, progress, report
from echobuf.cli.demo.outcome import Costs, Outcome
from echobuf.cli.demo.prediction import predict_seconds
from echobuf.cli.demo.server import TokenBucket
from echobuf.cli.demo.serving import ServerProcess
from echobuf.cli.demo.session import run_demo
from echobuf.cli.demo.settings import CONDITIONS, Settings
from echobuf.cli.demo.task import Clock, Task
from echobuf.cli.demo.training import Point, Run
from echobuf.cli.demo.upstream import DigitStream, Gate
from echobuf.cli.main import main


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="module")
def digits(folder):
    return data.write_digits(folder)


@pytest.fixture(scope="module")
def server(folder, digits):
    with ServerProcess(folder) as process:
        yield process


# The token bucket, with a clock of its own.


def bucket(rate, *, burst_s=0.0):
    clock = Time()
    return TokenBucket(rate, burst_s=burst_s, clock=clock, sleep=clock.sleep), clock


def test_bucket_gives_bytes_at_its_rate():
    limit, clock = bucket(1000)
    for _ in range(50):
        limit.take(20)
    assert clock.now - 100 == pytest.approx(1.0)


def test_bucket_keeps_no_more_than_the_burst():
    limit, clock = bucket(1000, burst_s=0.1)
    clock.now += 50.0  # unused time
    limit.take(100)
    assert clock.now == 150.0
    limit.take(300)
    assert clock.now == pytest.approx(150.3)


def test_bucket_catches_up_on_late_takers():
    limit, clock = bucket(1000, burst_s=0.1)
    clock.now += 0.1
    begin = clock.now
    for _ in range(100):
        limit.take(100)
        clock.now += 0.05  # busy elsewhere, for less than the bytes take
    assert clock.now - begin == pytest.approx(10.0, abs=0.1)


def test_bucket_queues_takers_who_come_at_once():
    waits = []
    limit = TokenBucket(1000, burst_s=0.0, clock=lambda: 0.0, sleep=waits.append)
    for _ in range(4):  # four connections: each waits for those before it
        limit.take(500)
    assert waits == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_bucket_changes_its_rate():
    limit, clock = bucket(math.inf)
    limit.take(10**9)
    assert clock.now == 100.0
    limit.set_rate(10)
    limit.take(20)
    assert clock.now == pytest.approx(102.0)


# The server.


def get(connection, path):
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def connect(server):
    return HTTPConnection("127.0.0.1", server.port, timeout=30)


def test_server_serves_the_files_and_nothing_else(server, folder, digits):
    connection = connect(server)
    for name in digits.train[:5]:
        assert get(connection, f"/{name}") == (200, (folder / name).read_bytes())
    for path in ("/", "/none.png", "/../server.py", f"/{folder}"):
        assert get(connection, path) == (404, b"")
    connection.close()


def test_server_shares_its_bandwidth_over_connections(server, folder, digits):
    rate, each = 20_000, 40
    names = digits.train[:each]
    least = 4 * sum(len((folder / name).read_bytes()) for name in names)

    def fetch_all():
        connection = connect(server)
        for name in names:
            get(connection, f"/{name}")
        connection.close()

    threads = [threading.Thread(target=fetch_all) for _ in range(4)]
    server.set_bandwidth(rate)
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    server.set_bandwidth(math.inf)
    # It can be later on a busy machine; sooner than the limit allows, never.
    assert took > 0.95 * least / rate


def test_server_ends_with_its_owner(folder, digits):
    with ServerProcess(folder) as process:
        connection = connect(process)
        assert get(connection, f"/{digits.train[0]}")[0] == 200
        connection.close()
    assert process._process.returncode == 0
    process.close()  # twice is fine
    with pytest.raises(ConnectionError):
        connect(process).connect()


def test_server_that_cannot_start_is_an_error(tmp_path, capfd):
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        ServerProcess(tmp_path / "missing")
    assert "missing" in capfd.readouterr().err


# The data.


def test_png_files_hold_the_digits(folder, digits):
    source = load_digits()
    assert len(digits.train) + len(digits.test) == len(source.target)
    assert not set(digits.train) & set(digits.test)
    for name in (*digits.train[::100], *digits.test[::100]):
        index = int(name.split("-")[0])
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        pixels = np.asarray(data.decode(content))
        assert np.array_equal(pixels, (source.images[index] * 15).astype(np.uint8))
        assert data.label_of(name) == source.target[index]


class Fixed:
    """A generator whose every distortion is none."""

    def uniform(self, low, high, size):
        return np.zeros(size)


def test_augment_without_distortion_only_enlarges():
    pixels = np.zeros((8, 8), np.uint8)
    pixels[2:6, 3:5] = 240
    result = data.augment(Image.fromarray(pixels), Fixed())
    assert result.shape == (data.SIDE, data.SIDE)
    assert np.array_equal(result, result[:, ::-1])
    assert np.array_equal(result, result[::-1, :])
    assert abs(int(result.mean()) - int(pixels.mean())) <= 3


def test_augment_is_seeded(folder, digits):
    image = data.decode((folder / digits.train[0]).read_bytes())
    one, same, other = (
        data.augment(image, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.flags.writeable


def test_test_set_is_always_the_same(folder, digits):
    images, labels = data.test_set(folder, digits.test[:20])
    again, _ = data.test_set(folder, digits.test[:20])
    assert images.shape == (20, data.SIDE, data.SIDE)
    assert images.dtype == np.uint8
    assert np.array_equal(images, again)
    assert labels.tolist() == [data.label_of(name) for name in digits.test[:20]]


# The upstream.


def stream(server, digits, seed=0, gate=None):
    return DigitStream(server.port, digits.train[:50], seed, gate or Gate())


def taken(source, count):
    iterator = iter(source)
    items = list(islice(iterator, count))
    iterator.close()
    return [label for _, label in items], np.stack([image for image, _ in items])


def test_stream_is_endless_shuffled_and_seeded(server, digits):
    labels, images = taken(stream(server, digits), 120)
    again_labels, again_images = taken(stream(server, digits), 120)
    assert labels == again_labels
    assert np.array_equal(images, again_images)
    assert sorted(labels[:50]) == sorted(labels[50:100])
    assert labels[:50] != labels[50:100]
    assert taken(stream(server, digits, seed=1), 120)[0] != labels


def test_stream_says_what_the_server_answered(server):
    source = DigitStream(server.port, ("0-0.png",), 0, Gate())
    with pytest.raises(RuntimeError, match="404"):
        next(iter(source))


def test_gate_stops_the_stream(server, digits):
    gate = Gate()
    source = iter(stream(server, digits, gate=gate))
    next(source)
    came = threading.Event()

    def take():
        next(source)
        came.set()

    thread = threading.Thread(target=take)
    with gate.closed():
        thread.start()
        assert not came.wait(0.2)
    thread.join(30)
    assert came.is_set()


def test_clock_stands_still():
    now = Time()
    clock = Clock(now)
    now.now += 2.0
    with clock.stopped():
        now.now += 50.0
    now.now += 1.0
    assert clock.seconds() == pytest.approx(3.0)


# The costs, the formula and the verdict.


def test_prediction():
    assert predict_seconds(1000, 1, 0.006, 0.001) == pytest.approx(6.0)
    assert predict_seconds(1000, 6, 0.006, 0.001) == pytest.approx(6.0)
    assert predict_seconds(1000, 8, 0.006, 0.001) == pytest.approx(8.0)


def test_next_bandwidth_brings_the_ratio_near():
    # With a constant t_downstream, t_upstream is inverse to the bandwidth.
    costs = Costs(upstream_s=200 / 50e3, downstream_s=0.5e-3)
    better = calibration.next_bandwidth(50e3, costs, 6.0)
    assert 200 / better / costs.downstream_s == pytest.approx(6.0)


def task(server, digits, folder, **settings):
    images, labels = data.test_set(folder, digits.test[:20])
    tensors = torch.from_numpy(images), torch.from_numpy(labels)
    return Task(Settings(**settings), server.port, digits.train, *tensors)


def test_calibration_keeps_a_given_bandwidth(server, digits, folder):
    chosen = task(server, digits, folder, bandwidth_kb_s=30.0, calibration_s=0.2)
    costs, bandwidth = calibration.calibrate(chosen, server)
    server.set_bandwidth(math.inf)
    assert bandwidth == 30_000.0
    # Each response has at least 100 bytes; a busy machine can only take longer.
    assert costs.upstream_s > 100 / 30_000
    assert costs.ratio == costs.upstream_s / costs.downstream_s > 0


def test_calibration_raises_what_the_upstream_raises(server, digits, folder):
    chosen = task(server, digits, folder, bandwidth_kb_s=1000.0)
    broken = Task(chosen.settings, chosen.port, ("0-0.png",), *([torch.zeros(1)] * 2))
    with pytest.raises(RuntimeError, match="404"):
        calibration.calibrate(broken, server)


def point(seconds, accuracy=0.9, factor=1.0):
    return Point(
        seconds=seconds,
        fresh=3200,
        steps=int(100 * factor),
        waited_s=seconds / 2,
        factor=factor,
        accuracy=accuracy,
        smoothed=accuracy,
        settled=True,
    )


def outcome(*results):
    """Runs that ended after some seconds; None for one that missed its target."""
    factors = (1.0, 5.0, 6.5)
    runs = [
        Run(
            condition,
            seconds is not None,
            (point(1.0, 0.5, factor), point(seconds or 75.0, 0.96, factor)),
        )
        for condition, seconds, factor in zip(
            CONDITIONS, results, factors, strict=False
        )
    ]
    costs = Costs(upstream_s=0.002, downstream_s=0.0004)
    return Outcome(Settings(), costs, 123_000.0, tuple(runs))


@pytest.mark.parametrize(
    ("baseline", "echoed", "words"),
    [
        (40.0, 10.0, "reached 95.0% in 10.0 s, 4.00 times sooner"),
        (40.0, 39.9, "made no difference"),
        (10.0, 20.0, "2.00 times later"),
        (10.0, 20.0, "it did not pay"),
        (10.0, None, "did not reach 95.0% within 75 s: it did not pay"),
        (None, 10.0, "no echoing not within 75 s: it paid"),
        (None, None, "nor did no echoing: it did not pay"),
    ],
)
def test_verdict(baseline, echoed, words):
    (line,) = outcome(baseline, echoed).verdicts()
    assert line.startswith("Batch echoing ")
    assert words in line


# The report.


def rendered(table):
    text = io.StringIO()
    Console(file=text, width=80).print(table)
    return text.getvalue()


def test_table_fits_a_terminal_and_has_all_figures():
    text = rendered(report.table(outcome(40.0, 10.0, 12.5)))
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if "example" in line).split()
    assert row[2:] == ["12.5", "8.3", "3,200", "650", "6.50", "6.2"]
    assert "every run" in text


def test_table_says_that_a_target_was_missed():
    text = rendered(report.table(outcome(None, 10.0)))
    row = next(line for line in text.splitlines() if "no echoing" in line)
    assert "not in 75" in row
    assert " - " in row


def test_json_has_everything_and_null_for_a_missed_target(tmp_path):
    path = tmp_path / "demo.json"
    report.write_json(outcome(None, 10.0, 12.5), ["echobuf", "demo"], path)

    def refuse(constant):
        raise AssertionError(constant)

    check_json(json.loads(path.read_text(), parse_constant=refuse))
    missed, reached, _ = json.loads(path.read_text())["runs"]
    assert (missed["reached"], missed["seconds"]) == (False, None)
    assert missed["predicted_s"] is None
    assert reached["seconds"] == 10.0
    assert reached["predicted_s"] == pytest.approx(3200 * 0.002)


def check_json(content):
    assert content["format"] == 1
    assert content["command_line"][:2] == ["echobuf", "demo"]
    assert content["settings"]["seed"] == content["seed"]
    assert {"echobuf", "target", "verdicts"} <= content.keys()
    assert {"python", "numpy", "torch"} <= content["versions"].keys()
    assert content["machine"]["cpu"]
    measured = content["measured"]
    assert measured["R"] == measured["t_upstream_s"] / measured["t_downstream_s"]
    assert measured["bandwidth_kb_s"] > 0
    assert [run["key"] for run in content["runs"]] == ["none", "batch", "example"]
    for run in content["runs"]:
        last = run["curve"][-1]
        assert run["seconds"] in (None, last["seconds"])
        assert run["reached"] == (run["seconds"] is not None)
        for key in ("fresh", "steps", "effective_factor", "waited_s", "accuracy"):
            assert run[key] >= 0


@pytest.mark.parametrize("results", [(40.0, 10.0, 12.5), (None, None, None)])
def test_picture_is_a_png(tmp_path, results):
    path = tmp_path / "accuracy.png"
    picture.write_picture(outcome(*results), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert min(image.size) > 300


# The progress.


def test_lines_come_every_few_seconds_and_at_the_end():
    lines = []
    shown = progress.Lines(lines.append)
    shown.begin(CONDITIONS[0])
    for seconds in range(13):
        shown.seen(point(float(seconds)))
    shown.end()
    assert [line.split()[3] for line in lines] == ["5.0", "10.0", "12.0"]
    assert all(line.startswith("no echoing") for line in lines)
    shown.end()
    assert len(lines) == 3


def test_display_suits_the_output():
    plain = Console(file=io.StringIO())
    terminal = Console(file=io.StringIO(), force_terminal=True, _environ={})
    assert type(progress.display(Settings(), plain, print)) is progress.Lines
    assert type(progress.display(Settings(), terminal, print)) is progress.Live
    silent = progress.display(Settings(progress=False), terminal, print)
    assert type(silent) is progress.Silent


def test_live_bars_show_the_last_figures():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, _environ={})
    with progress.Live(console, 0.95) as shown:
        shown.begin(CONDITIONS[2])
        shown.seen(point(3.0, accuracy=0.97, factor=6.0))
        shown.end()
    assert "x6.00" in text.getvalue()
    assert "example echoing" in text.getvalue()


# The whole.


def test_demo_to_an_easy_target(capsys, tmp_path):
    out = tmp_path / "a folder" / "deeper"
    arguments = ["--target", "0.3", "--bandwidth", "2000", "--seed", "3"]
    threads = torch.get_num_threads()
    assert main(["demo", *arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert not any(ord(c) < 32 and c != "\n" for c in printed.out)
    for words in ("R = ", "no echoing", "batch echoing", "example echoing", "formula"):
        assert words in printed.out
    for name in ("accuracy.png", "demo.json"):
        assert str(out / name) in printed.out
        assert (out / name).stat().st_size > 0
    content = json.loads((out / "demo.json").read_text())
    check_json(content)
    assert content["seed"] == 3
    assert content["command_line"][2:-2] == arguments
    assert all(run["reached"] for run in content["runs"])
    assert content["runs"][1]["effective_factor"] > 1
    assert torch.get_num_threads() == threads


def test_demo_that_misses_its_target_says_so(capsys, tmp_path):
    settings = Settings(
        target=0.999,
        bandwidth_kb_s=2000.0,
        out=tmp_path,
        progress=False,
        budget_s=0.5,
        calibration_s=0.1,
    )
    result = run_demo(settings, ["echobuf", "demo"])
    assert not any(run.reached for run in result.runs)
    assert all(run.points for run in result.runs)
    printed = capsys.readouterr().out
    assert printed.count("not in ") == 3
    assert "it did not pay" in printed
    runs = json.loads((tmp_path / "demo.json").read_text())["runs"]
    assert [run["seconds"] for run in runs] == [None] * 3


@pytest.mark.parametrize("kind", ["file", "below a file", "null"])
def test_a_folder_that_cannot_be_written_to(capsys, tmp_path, kind):
    file = tmp_path / "file"
    file.touch()
    out = {"file": str(file), "below a file": f"{file}/x", "null": "a\0b"}[kind]
    assert main(["demo", "--out", out]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "--out" in printed.err


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_ctrl_c_ends_the_demo_and_its_server(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "echobuf", "demo", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if line.startswith("Measured"):  # the first run has begun
            break
    (server_id,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "echobuf: interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(server_id, 0)
    assert list(tmp_path.iterdir()) == []
