"""The code of the pages that lead into echobuf runs."""

from __future__ import annotations

import itertools
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echobuf
import markdown
from echobuf import serve, transforms
from echobuf.testing import simulated_cuda

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


def blocks(name: str) -> list[str]:
    return markdown.blocks(DOCS / f"{name}.md", "python")


def smaller(code: str, **sizes: Any) -> str:
    """Return code with other numbers, each of which it has, as `name=number`."""
    for name, size in sizes.items():
        code, count = re.subn(rf"\b{name}=[\d.]+", f"{name}={size}", code)
        assert count, f"`{name}=` is not in the code"
    return code


def check_buffer_example(code: str, n: int) -> None:
    """It serves each of the examples that its producers put four times."""
    counts = np.zeros(n, int)

    def start_producers(buffer):
        def produce():
            image = np.zeros((64, 64, 3), np.uint8)
            for i in range(len(counts)):
                buffer.put({"image": image, "label": np.int64(i)})
            buffer.close()

        threading.Thread(target=produce).start()

    def train_step(image, label):
        assert image.shape[1:] == (64, 64, 3)
        np.add.at(counts, label, 1)

    exec(code, {"start_producers": start_producers, "train_step": train_step})
    assert (counts == 4).all()


# ---- start.md


def test_start(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    dataset, loop, analysis, _, _ = blocks("start")
    assert "sleep(0.001)" in dataset
    assert "return 2000" in dataset
    dataset = dataset.replace("return 2000", "return 400")
    names: dict[str, Any] = {}
    exec(dataset.replace("sleep(0.001)", "sleep(0)"), names)
    exec(smaller(loop, window=100), names)
    said = capsys.readouterr().out
    assert said.count("each example") == 3
    assert names["stats"].fresh == 400
    assert names["stats"].served >= 400
    exec(smaller(analysis, seconds=0.4), names)
    assert "t_downstream" in capsys.readouterr().out
    assert names["report"].upstream_s.mean > 0


def test_start_augments_each_echo_anew():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    images = torch.randint(0, 256, (48, 3, 64, 60), dtype=torch.uint8)
    data = torch.utils.data.TensorDataset(images, torch.arange(48))
    names = {
        "data_loader": torch.utils.data.DataLoader(data, batch_size=8),
        "echobuf": echobuf,
        "torch": torch,
    }
    exec(smaller(blocks("start")[3], window=32), names)
    uses: dict[int, list[Any]] = {}
    for batch, numbers in names["loader"]:
        assert batch.shape[1:] == (3, 48, 48)
        assert batch.dtype == torch.float32
        assert batch.min() < -1 < 1 < batch.max()
        for image, number in zip(batch, numbers.tolist(), strict=True):
            uses.setdefault(number, []).append(image)
    assert set(uses) == set(range(48))
    for same in uses.values():
        assert len(same) == 4
        assert any((image != same[0]).any() for image in same)


def test_start_has_a_loop_of_a_buffer():
    check_buffer_example(blocks("start")[4], 5000)


# ---- resume.md


def test_resume_of_a_loader():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    import echobuf.torch

    data = TensorDataset(torch.arange(600), -torch.arange(600))
    sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)

    def make_loader():
        upstream = DataLoader(data, batch_size=16, sampler=sampler)
        return echobuf.torch.EchoLoader(upstream, window=128, factor=2)

    expected = [(x.tolist(), y.tolist()) for x, y in make_loader()]
    seen = []
    names = {
        "sampler": sampler,
        "loader": make_loader(),
        "make_loader": make_loader,
        "train_step": lambda x, y: seen.append((x.tolist(), y.tolist())),
    }
    exec(blocks("resume")[0], names)
    assert seen == expected
    assert len(seen) > 60


def test_resume_of_a_buffer():
    def make_buffer():
        return echobuf.EchoBuffer(np.int64(0), batch_size=5, window=20, factor=2)

    def produce(buffer, numbers):
        def run():
            for i in numbers:
                try:
                    buffer.put(np.int64(i))
                except echobuf.ClosedError:  # the first buffer was dropped
                    return
            buffer.close()

        thread = threading.Thread(target=run)
        threads.append((buffer, thread))
        thread.start()

    threads: list[tuple[echobuf.EchoBuffer, threading.Thread]] = []
    names = {"make_buffer": make_buffer, "produce": produce}
    exec(blocks("resume")[1], names)
    for buffer, thread in threads:
        buffer.__exit__(None, None, None)
        thread.join()
    served = np.concatenate([*names["first"], *names["rest"]])
    assert len(names["first"]) == 10
    assert (np.bincount(served) == 2).all()
    assert len(served) == 200


# ---- guides


def test_images():
    torch = pytest.importorskip("torch")
    images = torch.randint(0, 256, (32, 256, 256, 3), dtype=torch.uint8)
    labels: list[int] = []

    def train_step(batch, numbers):
        assert batch.shape[1:] == (224, 224, 3)
        assert batch.dtype == torch.float32
        labels.extend(numbers.tolist())

    names = {
        "torch": torch,
        "photos": torch.utils.data.TensorDataset(images, torch.arange(32)),
        "train_step": train_step,
    }
    (code,) = blocks("guide_images")
    exec(smaller(code, window=32, batch_size=8, num_workers=0), names)
    assert (np.bincount(labels) == 4).all()


def test_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokens = np.arange(129 * 40, dtype=np.int32)
    np.save("tokens.npy", np.append(tokens, np.int32(0)))
    firsts: list[int] = []

    def train_step(inputs, targets):
        assert inputs.shape[1:] == (128,)
        assert (targets == inputs + 1).all()
        firsts.extend(inputs[:, 0].tolist())

    class Stream:
        def __iter__(self):
            return iter(tokens)

    cut, masked, shuffled = blocks("guide_text")
    names: dict[str, Any] = {"train_step": train_step}
    exec(smaller(cut, window=32), names)
    assert sorted(firsts) == sorted(2 * list(range(0, len(tokens), 129)))
    exec(smaller(masked, window=32), names)
    for batch in names["loader"]:
        hidden = batch["labels"] >= 0
        assert 0 < hidden.sum() < hidden.size / 2
        assert batch["tokens"].shape == batch["labels"].shape
    names |= {"stream": Stream(), "count": len(tokens)}
    exec(smaller(shuffled, window=512), names)
    served = np.concatenate(list(names["loader"]))
    assert (np.sort(served) == tokens).all()
    assert (served != tokens).any()
    assert len(names["loader"]) == len(tokens) // 16 + (len(tokens) % 16 > 0)


def test_reinforcement_learning():
    def environment(first):
        for i in range(first, first + 10_000):
            yield np.full(8, i, np.float32), np.int64(i), np.float32(i)

    actions: list[int] = []

    def learn(observation, action, reward):
        assert (observation[:, 0] == reward).all()
        actions.extend(action.tolist())

    code, _, limited = blocks("guide_rl")
    environments = [environment(0), environment(10_000)]
    names = {"environments": environments, "steps": 200, "learn": learn}
    exec(smaller(code, window=256), names)
    counts = np.bincount(actions)
    assert counts.sum() == 200 * 64
    assert counts.max() == 4
    assert (counts == 4).sum() > 1000

    exec(limited, names)
    buffer = names["buffer"]
    segment = {"observation": np.zeros((256, 4), np.float32), "log_prob": counts[:256]}
    segment["log_prob"] = segment["log_prob"].astype(np.float32)
    oldest = []
    for version in range(5):
        buffer.put_batch(segment, version=version, timeout=0)
        while buffer.ready():
            oldest.append(version - buffer.next_batch()[1].version.min())
    assert max(oldest) == 2
    assert buffer.stats().expired == 2 * 256


def test_an_environment_on_the_device():
    torch = pytest.importorskip("torch")
    made, used = itertools.count(), []

    class Environment:
        def step(self):
            state = torch.full((128, 3), float(next(made)))
            action = torch.arange(128)
            return {
                "state": state,
                "action": action,
                "reward": state[:, 0] * 128 + action,
                "next_state": state + 1,
            }

    def learn(batch):
        assert torch.equal(batch["next_state"], batch["state"] + 1)
        used.extend(batch["reward"].tolist())

    names = {"environment": Environment(), "steps": 24, "learn": learn}
    names |= {"device": "cpu"}
    exec(smaller(blocks("guide_rl")[1], window=2048), names)
    counts = np.bincount(np.array(used, int))
    assert (counts[:1024] == 8).all()  # what has left the window


def test_several_gpus():
    torch = pytest.importorskip("torch")
    dist = torch.distributed
    numbers: list[int] = []
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        names = {
            "dataset": torch.arange(160),
            "epochs": 2,
            "train_step": lambda batch: numbers.extend(batch.tolist()),
        }
        (code,) = blocks("guide_multi_gpu")
        exec(smaller(code, window=32, batch_size=8, num_workers=0), names)
        names["loader"].close()
    finally:
        dist.destroy_process_group()
    assert (np.bincount(numbers) == 2 * 4).all()
    assert len(numbers) == 2 * 4 * 160


def test_serving(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (command,) = markdown.blocks(DOCS / "guide_serving.md", "bash")
    assert command == markdown.blocks(DOCS / "serve.md", "bash")[0]
    numbers: list[int] = []
    names = {"train_step": lambda batch: numbers.extend(batch.tolist())}
    photos = [np.int64(i) for i in range(2000)]
    (code,) = blocks("guide_serving")
    with serve.Server(photos, "photos", window=1024, epochs=1):
        exec(code, names)
        names["loader"].close()
    assert (np.bincount(numbers) == 2).all()
    assert len(numbers) == 4000


# ---- other pages


def test_transforms():
    page = blocks("transforms")
    names = {}
    exec(page[0], names)
    assert "[3, 224, 224]" in repr(names["buffer"]).partition("->")[2]
    names["buffer"].__exit__(None, None, None)
    names |= {name: getattr(transforms, name) for name in transforms.__all__}
    field = echobuf.Field((256, 256), np.uint8)
    for code, fields in (
        (page[1], {"image": field, "mask": field}),
        (page[2], {"tokens": echobuf.Field(16, np.int32)}),
    ):
        exec(code, names)
        with echobuf.EchoBuffer(
            fields, batch_size=2, window=4, transform=names["transform"]
        ) as buffer:
            example = {key: np.ones(f.shape, f.dtype) for key, f in fields.items()}
            buffer.put(example)
            buffer.close()
            batch = buffer.next_batch()
        assert set(batch) == set(fields) | set(names["transform"])


def test_gpus():
    page = blocks("gpu")
    with simulated_cuda():
        check_buffer_example(page[1], 500)
    compile(page[3].replace(", ...}", "}"), "gpu.md", "exec")  # torch's own graphs
    exec(page[4])


def test_producers_on_a_gpu():
    counts = np.zeros(64 + 16, int)

    def train_step(image, label):
        assert (image[:, 0, 0, 0] == label % 251).all()
        np.add.at(counts, label, 1)

    with simulated_cuda() as simulation:

        def decode(labels):
            images = np.zeros((len(labels), 64, 64, 3), np.uint8)
            images += (labels % 251).astype(np.uint8)[:, None, None, None]
            return simulation.array(images)

        parts = np.arange(len(counts)).reshape(-1, 8)
        archive = [(part, simulation.array(part)) for part in parts]
        archive[::2] = [(part, part) for part in parts[::2]]
        names = {"archive": archive, "decode": decode, "train_step": train_step}
        exec(smaller(blocks("gpu")[2], window=64, batch_size=16), names)
    assert (counts[:16] == 4).all()  # what has left the window


def test_gpus_around_a_data_loader():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    data = torch.utils.data.TensorDataset(torch.arange(600))
    upstream = torch.utils.data.DataLoader(data, batch_size=16)
    names = {"data_loader": upstream, "echobuf": echobuf}
    with simulated_cuda():
        exec(smaller(blocks("gpu")[0], window=128), names)
        served = torch.cat([batch[0] for batch in names["loader"]])
    assert set(served.tolist()) == set(range(600))


# ---- all pages

RUN_HERE = "start resume guide_images guide_text guide_rl guide_multi_gpu guide_serving"
PLAIN = "index faq options compare when_not limits promises figures"


def test_pages_without_tests_have_no_code_but_readmes():
    (readme,) = markdown.blocks(DOCS.parent / "README.md", "python")
    assert all(blocks(name) for name in RUN_HERE.split())
    for name in PLAIN.split():
        for block in blocks(name):
            lines = [line.partition("#")[0].strip() for line in block.splitlines()]
            assert all(line in readme for line in lines), name
