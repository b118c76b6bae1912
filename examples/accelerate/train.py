"""Trains on handwritten digits with Hugging Face Accelerate, stops, and goes on.

pip install '.[torch]' accelerate scikit-learn
python train.py, or: accelerate launch --cpu --num_processes 2 train.py
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from echobuf.accelerate import EchoLoader

EPOCHS = 3
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)


def train(folder: str, stop_at: int | None = None, resume: bool = False):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(64, 64), torch.nn.ReLU(), linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = TensorDataset(images[:1400], labels[:1400])
    # This process's share; the loader is told the epoch, and tells the sampler.
    ranks, rank = accelerator.num_processes, accelerator.process_index
    share = DistributedSampler(data, ranks, rank)
    upstream = DataLoader(data, batch_size=32, sampler=share)
    loader = EchoLoader(upstream, window=512, factor=4, device=accelerator.device)
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(folder)
    for epoch in range(loader.state_dict()["epoch"], EPOCHS):
        loader.set_epoch(epoch)
        for step, (image, label) in enumerate(loader):
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(image), label)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if step == stop_at:
                accelerator.save_state(folder)
                return None
    accuracy = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean()
    accelerator.print(f"test accuracy {accuracy:.3f}")
    return float(accuracy)


def main(folder: str = "checkpoint") -> float:
    train(folder, stop_at=60)  # of 175 steps an epoch, in one process
    return train(folder, resume=True)


if __name__ == "__main__":
    main()
