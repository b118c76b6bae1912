"""The README says what works: its code runs, and CI runs its second command."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import echobuf
import markdown
from echobuf import transforms
from echobuf.buffer import engine_of
from echobuf.testing import simulated_cuda

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    return markdown.blocks(ROOT / "README.md", language)


def test_the_first_two_commands_are_one_line_each():
    for block in blocks("sh")[:2]:
        assert len(block.splitlines()) == 1


def test_ci_runs_the_second_command_as_it_stands():
    assert blocks("sh")[1].strip() in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_loader_example(capsys: pytest.CaptureFixture[str]):
    torch = pytest.importorskip("torch")
    torch_data = torch.utils.data
    data = torch_data.TensorDataset(torch.zeros(100, 3), torch.arange(100))
    steps: list[int] = []
    names = {
        "data_loader": torch_data.DataLoader(data, batch_size=10),
        "train_step": lambda images, labels: steps.append(len(labels)),
    }
    exec(blocks("python")[0], names)
    assert sum(steps) >= 10 * 100
    assert float(capsys.readouterr().out.splitlines()[0]) >= 1


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


def test_the_buffer_example():
    check_buffer_example(blocks("python")[2], 5000)


def test_the_loader_example_with_a_transform():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    images = torch.randint(0, 256, (48, 3, 256, 240), dtype=torch.uint8)
    data = torch.utils.data.TensorDataset(images, torch.arange(48))
    names = {
        "data_loader": torch.utils.data.DataLoader(data, batch_size=8),
        "echobuf": echobuf,
        "torch": torch,
    }
    exec(blocks("python")[3].replace("8192", "16"), names)
    served = list(names["loader"])
    assert {int(i) for _, numbers in served for i in numbers} == set(range(48))
    for batch, _ in served:
        assert batch.shape[1:] == (3, 224, 224)
        assert batch.dtype == torch.float32
        assert batch.min() < -1 < 1 < batch.max()


def test_the_page_on_transforms():
    page = markdown.blocks(ROOT / "docs" / "transforms.md", "python")
    names = {}
    exec(page[0], names)
    spec = engine_of(names["buffer"]).output.spec
    assert spec.fields[0].shape == (3, 224, 224)
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


def test_the_loader_example_on_a_gpu():
    torch = pytest.importorskip("torch")
    import echobuf.torch

    data = torch.utils.data.TensorDataset(torch.arange(600))
    upstream = torch.utils.data.DataLoader(data, batch_size=16)
    names = {"data_loader": upstream, "echobuf": echobuf}
    with simulated_cuda():
        exec(blocks("python")[4].replace("32768", "128"), names)
        served = torch.cat([batch[0] for batch in names["loader"]])
    assert set(served.tolist()) == set(range(600))


def test_the_page_on_gpus():
    page = markdown.blocks(ROOT / "docs" / "gpu.md", "python")
    with simulated_cuda():
        check_buffer_example(page[0], 500)
    compile(page[1].replace(", ...}", "}"), "gpu.md", "exec")  # torch's own graphs
    exec(page[2])


def test_the_checkpoint_example():
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
    exec(blocks("python")[5], names)
    assert seen == expected
    assert len(seen) > 60
