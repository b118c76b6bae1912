"""Trains on handwritten digits with PyTorch Lightning, stops half-way, and goes on.

pip install '.[torch]' lightning scikit-learn
"""

import tempfile

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import echobuf
from echobuf.torch import EchoLoader

EPOCHS = 3


class Digits(LightningModule):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps  # of the schedule
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def training_step(self, batch, batch_idx):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.layers(images), labels)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=4e-3)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        return [optimizer], [{"scheduler": rate, "interval": "step"}]


def make_loader() -> EchoLoader:
    digits = load_digits()
    images = torch.tensor(digits.data[:1400] / 16, dtype=torch.float32)
    data = TensorDataset(images, torch.tensor(digits.target[:1400]))
    return EchoLoader(DataLoader(data, batch_size=32), window=512, factor=4)


def fit(folder: str, resume: str | None = None, **until) -> tuple[Digits, Trainer]:
    keep = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=250)
    quiet = {"logger": False, "enable_progress_bar": False}
    trainer = Trainer(accelerator="cpu", callbacks=[keep], **quiet, **until)
    loader = make_loader()
    model = Digits(echobuf.schedule_steps(loader, EPOCHS))
    trainer.fit(model, loader, ckpt_path=resume)
    return model, trainer


def main() -> float:
    with tempfile.TemporaryDirectory() as folder:
        fit(folder, max_steps=250)  # an epoch has 175
        model, trainer = fit(folder, f"{folder}/step=250.ckpt", max_epochs=EPOCHS)
    digits = load_digits()
    scores = model.layers(torch.tensor(digits.data[1400:] / 16, dtype=torch.float32))
    accuracy = (scores.argmax(1) == torch.tensor(digits.target[1400:])).float().mean()
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    print(f"{trainer.global_step} steps, rate {rate}, test accuracy {accuracy:.3f}")
    return float(accuracy)


if __name__ == "__main__":
    main()
