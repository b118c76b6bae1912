"""The code of docs/trainers.md runs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightning")
pytest.importorskip("accelerate")

import accelerate
import torch
from torch.utils.data import DataLoader

import markdown
from echobuf.torch import EchoLoader
from on_lightning import Recorder, make_trainer

PAGE = Path(__file__).parents[3] / "docs" / "trainers.md"
EXAMPLES = 40


def run(code, names):
    names |= {"data_loader": DataLoader(range(EXAMPLES), 5)}
    exec(
        code.replace("8192", "20").replace("Accelerator(", "Accelerator(cpu=True, "),
        names,
    )


# Lightning asks torch for what torch is to lose.
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
def test_lightning(tmp_path):
    model = Recorder()
    code, *_ = markdown.blocks(PAGE, "python")
    names = {"model": model, "EchoLoader": EchoLoader}
    run(code, names | {"Trainer": lambda **kwargs: make_trainer(tmp_path, **kwargs)})
    assert len(model.trained) == 10 * 2 * EXAMPLES // 5


def test_accelerate():
    _, code, *_ = markdown.blocks(PAGE, "python")
    model = torch.nn.Linear(1, 1)
    batches = []
    names = {
        "Accelerator": accelerate.Accelerator,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters()),
        "train_step": lambda _, batch: batches.append(batch.tolist()),
    }
    run(code, names)
    assert len(batches) == 10 * 2 * EXAMPLES // 5


def test_transformers(tmp_path):
    pytest.importorskip("transformers")
    from on_hf_trainer import BATCH, Numbers, Recorder, make_trainer

    _, _, code, _ = markdown.blocks(PAGE, "python")
    args = make_trainer(tmp_path).args
    names = {"model": Recorder(), "args": args, "data": Numbers(EXAMPLES)}
    run(code, names)
    assert len(names["model"].trained) == 3 * 2 * EXAMPLES // BATCH


def test_importing_brings_in_no_trainer():
    trainers = {"lightning", "accelerate", "transformers", "keras"}
    code = f"import sys, echobuf.torch; print({trainers} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"
