"""Trains on handwritten digits with a network whose parameters ranks share out (FSDP).

torchrun --nproc-per-node 2 examples/fsdp/train.py
"""

import gc

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from echobuf.torch import EchoLoader

EPOCHS = 3


def main() -> None:
    dist.init_process_group("gloo")  # "nccl" on GPUs
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    train = TensorDataset(images[:1400], labels[:1400])
    sampler = DistributedSampler(train, shuffle=True)  # of each rank: its shard
    upstream = DataLoader(train, batch_size=16, sampler=sampler)
    loader = EchoLoader(upstream, window=256, factor=4, uneven="drop")

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    for layer in network:
        fully_shard(layer)
    fully_shard(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)  # and the sampler, through it
        steps = 0
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
            steps += 1
        with torch.no_grad():
            right = network(images[1400:]).argmax(1) == labels[1400:]
        if dist.get_rank() == 0:
            accuracy = right.float().mean()
            print(f"epoch {epoch}: {steps} steps, test accuracy {accuracy:.3f}")
    # A thread of gloo's may still drop a tensor, and needs Python for that: it has to
    # end before Python does, and ends with the last reference to the process group.
    del network, layer, optimizer, right
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
