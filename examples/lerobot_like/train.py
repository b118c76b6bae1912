"""Clones a policy from episodes whose video decodes slower than the policy learns.

An episode is a folder with `episode.mjpeg` (JPEG frames, one after another) and
`episode.npz` (states, actions, where frames begin), as a robot's recording would have
them. An example is an observation (two frames and a state) and the next CHUNK actions,
as ACT and Diffusion Policy learn. Frames are decoded once for all echoes.

pip install '.[torch]' pillow
"""

import argparse
import io
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import IterableDataset

from echobuf.torch import EchoLoader

SIZE, SEEN, HISTORY, CHUNK = 384, 56, (0, -4), 8


def record(folder: Path, episodes: int, length: int) -> None:
    """Write episodes of an arm that reaches for a mark: the mark is in the frames."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for number in range(episodes):
        mark, state = rng.uniform(0.1, 0.9, 2), rng.uniform(0.1, 0.9, 2)
        states, actions, frames = [], [], []
        for _ in range(length):
            action = 0.1 * (mark - state)
            image = np.full((SIZE, SIZE, 3), 40, np.uint8)
            for place, channel in ((mark, 0), (state, 2)):
                x, y = columns / SIZE - place[0], rows / SIZE - place[1]
                near = np.hypot(x, y) < 0.08
                image[near, channel] = 255
            file = io.BytesIO()
            Image.fromarray(image).save(file, "jpeg", quality=90)
            frames.append(file.getvalue())
            states.append(state.copy())
            actions.append(action)
            state += action + rng.normal(0, 0.01, 2)
        ends = np.cumsum([len(frame) for frame in frames])
        episode = folder / f"{number:04}"
        episode.mkdir(parents=True)
        (episode / "episode.mjpeg").write_bytes(b"".join(frames))
        np.savez(episode / "episode.npz", states=states, actions=actions, ends=ends)


class Episodes(IterableDataset):
    """Observations and chunks of actions of all episodes, shuffled by episode."""

    def __init__(self, folder: Path) -> None:
        self.paths, self.epoch = sorted(folder.iterdir()), 0
        self.lengths = [len(np.load(p / "episode.npz")["states"]) for p in self.paths]

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return sum(length - CHUNK for length in self.lengths)

    def __iter__(self):
        for number in np.random.default_rng(self.epoch).permutation(len(self.paths)):
            data = np.load(self.paths[number] / "episode.npz")
            video = (self.paths[number] / "episode.mjpeg").read_bytes()
            ends = [0, *data["ends"]]
            states = data["states"].astype(np.float32)
            actions = data["actions"].astype(np.float32)
            for at in range(len(states) - CHUNK):
                frames = [max(0, at + offset) for offset in HISTORY]
                yield {
                    "frames": np.stack(
                        [decode(video[ends[f] : ends[f + 1]]) for f in frames]
                    ),
                    "state": states[at],
                    "actions": actions[at : at + CHUNK],
                }


def decode(jpeg: bytes) -> np.ndarray:
    """Return a frame, as small as the policy sees it."""
    return np.asarray(Image.open(io.BytesIO(jpeg)).resize((SEEN, SEEN)))


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            *(nn.Conv2d(3 * len(HISTORY), 16, 5, 4), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 64)),
        )
        self.act = nn.Sequential(
            nn.Linear(66, 128), nn.ReLU(), nn.Linear(128, 2 * CHUNK)
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        frames = batch["frames"].permute(0, 1, 4, 2, 3).flatten(1, 2).float() / 255
        seen = torch.cat([self.see(frames), batch["state"]], 1)
        return self.act(seen).view(-1, CHUNK, 2)


class Trainer:
    def __init__(self, folder: Path, factor: float | str, window: int) -> None:
        torch.manual_seed(0)
        self.loader = EchoLoader(
            Episodes(folder), batch_size=32, window=window, factor=factor
        )
        self.policy = Policy()
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=1e-3)

    def train(self, steps: int) -> list[float]:
        """Train for so many steps, over as many epochs as that takes."""
        losses: list[float] = []
        while len(losses) < steps:
            for batch in itertools.islice(self.loader, steps - len(losses)):
                loss = (self.policy(batch) - batch["actions"]).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses

    def save(self, path: Path) -> None:
        state = {"policy": self.policy.state_dict(), "loader": self.loader.state_dict()}
        torch.save({**state, "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="of episodes; recorded if left out")
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--factor", type=int, default=4)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.data or Path(scratch)
        if args.data is None:
            record(folder, args.episodes, args.length)
        seconds = {}
        for factor in (1, args.factor):
            trainer = Trainer(folder, factor, args.window)
            start = time.perf_counter()
            losses = trainer.train(args.steps)
            seconds[factor] = time.perf_counter() - start
            stats = trainer.loader.stats()
            print(
                f"factor {factor}: {args.steps} steps in {seconds[factor]:.1f} s, loss "
                f"{np.mean(losses[-10:]):.5f}, R = {stats.ratio:.1f}, "
                f"{stats.wait_share:.0%} of the time waiting"
            )
            trainer.loader.close()
        speed_up = seconds[1] / seconds[args.factor]
        print(f"factor {args.factor} took the same steps {speed_up:.1f} times as fast")


if __name__ == "__main__":
    main()
