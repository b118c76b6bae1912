"""Trains a small CNN in a plain loop as timm's: EMA, MixUp, cosine by updates, resume.

Five lines differ from a loop without echoing: they are marked. AUGMENT takes the place
of `create_transform` and `Mixup`, so that each echo is cropped and mixed anew.

pip install '.[torch]' scikit-learn
python train.py --factor 4; after Ctrl-C: python train.py --factor 4 --resume last.pt
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from echobuf import transforms as T
from echobuf.torch import EchoLoader  # changed

AUGMENT = {
    0: [
        T.Pad(2),
        T.RandomCrop(16),
        T.ToDtype(np.float32, scale=True),
        T.MixUp(alpha=0.2, num_classes=10),
        T.Normalize(mean=(0.3,), std=(0.37,)),
        T.ToChannelFirst(),
    ]
}


def make_model() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(512, 10)),
    )


def make_data() -> tuple[TensorDataset, TensorDataset]:
    """Return digits of uint8[16, 16, 1]: to train, and to validate."""
    digits = load_digits()
    images = (digits.images * 15.9).astype(np.uint8).repeat(2, 1).repeat(2, 2)
    pairs = torch.tensor(images[..., None]), torch.tensor(digits.target)
    return TensorDataset(*(p[:1400] for p in pairs)), TensorDataset(
        *(p[1400:] for p in pairs)
    )


def cosine(update: int, updates: int, lr: float, warmup: int = 20) -> float:
    if update < warmup:
        return lr * (update + 1) / warmup
    return 0.5 * lr * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def validate(model: nn.Module, data: TensorDataset) -> float:
    images, labels = data.tensors
    inputs = (images.float() / 255 - 0.3) / 0.37
    with torch.no_grad():
        predicted = model.eval()(inputs.permute(0, 3, 1, 2)).argmax(1)
    model.train()
    return float((predicted == labels).float().mean())


def main(arguments: list[str] | None = None) -> list[float]:
    """Train, and return the loss of each update."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=Path("last.pt"))
    parser.add_argument("--stop-after", type=int, metavar="UPDATES")
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model().to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    kept = {"model": model, "ema": ema, "optimizer": optimizer}
    amp = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    train, valid = make_data()
    sampler = DistributedSampler(train, num_replicas=1, rank=0, shuffle=True, seed=42)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    loader = EchoLoader(  # changed
        loader,
        window=args.window,
        factor=args.factor,
        transform=AUGMENT,
        device=str(device),
    )
    updates, update, first_epoch, losses = len(loader) * args.epochs, 0, 0, []
    if args.resume:
        saved = torch.load(args.resume, weights_only=True)
        for name, each in kept.items():
            each.load_state_dict(saved[name])
        loader.load_state_dict(saved["loader"])  # changed
        update, first_epoch = saved["update"], saved["loader"]["epoch"]

    for epoch in range(first_epoch, args.epochs):
        loader.set_epoch(epoch)  # changed: it was sampler.set_epoch(epoch)
        for images, targets in loader:
            for group in optimizer.param_groups:
                group["lr"] = cosine(update, updates, args.lr)
            with amp:
                loss = nn.functional.cross_entropy(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            ema.update_parameters(model)
            update += 1
            losses.append(loss.item())
            if update == args.stop_after:
                break
        saved = {name: each.state_dict() for name, each in kept.items()}
        saved |= {"update": update, "loader": loader.state_dict()}  # changed
        torch.save(saved, args.checkpoint)
        print(
            f"epoch {epoch}: update {update} of {updates}, loss {losses[-1]:.3f}, "
            f"accuracy {validate(model, valid):.3f}, of the EMA "
            f"{validate(ema, valid):.3f}"
        )
        if update == args.stop_after:
            break
    loader.close()
    return losses


if __name__ == "__main__":
    main()
