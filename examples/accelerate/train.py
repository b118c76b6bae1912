"""Trains on handwritten digits with Hugging Face Accelerate, stops, and goes on.

pip install '.[torch]' accelerate scikit-learn
python train.py, or: accelerate launch --cpu --num_processes 2 train.py
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import echobuf
from echobuf.accelerate import EchoLoader

EPOCHS, ACCUMULATE = 3, 2
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)


def train(folder: str, stop_at: int | None = None, resume: bool = False):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(64, 64), torch.nn.ReLU(), linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    data = TensorDataset(images[:1400], labels[:1400])
    # This process's share; the loader is told the epoch, and tells the sampler.
    ranks, rank = accelerator.num_processes, accelerator.process_index
    share = DistributedSampler(data, ranks, rank)
    upstream = DataLoader(data, batch_size=32, sampler=share)
    loader = EchoLoader(upstream, window=512, factor=4, device=accelerator.device)
    model, optimizer = accelerator.prepare(model, optimizer)
    steps = echobuf.schedule_steps(loader, EPOCHS, accumulate=ACCUMULATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    accelerator.register_for_checkpointing(loader, schedule)
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
            if accelerator.sync_gradients:
                schedule.step()
            if step == stop_at:
                accelerator.save_state(folder)
                return None
    accuracy = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean()
    rate = schedule.get_last_lr()[0]
    accelerator.print(f"rate {rate}, test accuracy {accuracy:.3f}")
    return float(accuracy)


def main(folder: str = "checkpoint") -> float:
    train(folder, stop_at=60)  # of 175 steps an epoch, in one process
    return train(folder, resume=True)


if __name__ == "__main__":
    main()
