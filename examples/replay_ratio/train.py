"""A Q network learns to swing pendulums up, from a window of transitions.

256 pendulums are simulated in torch, on the learner's device, and their transitions are
put where they are: on a GPU nothing crosses the bus. The window is the replay buffer,
and the factor is the replay ratio: each transition is used exactly so many times, in
shuffled passes. A run for each factor shows what the ratio brings: the return over the
steps that the pendulums have made.

The pendulum is Gymnasium's Pendulum-v1 with five torques; the learner is a double DQN
(van Hasselt et al., arXiv:1509.06461).

pip install '.[torch]' matplotlib
python train.py --factors 1 8 --plot returns.png
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from echobuf import EchoBuffer, Field

TORQUES = (-2.0, -1.0, 0.0, 1.0, 2.0)
FASTEST, STEP_S, GRAVITY = 8.0, 0.05, 10.0  # a rod of 1 m and 1 kg
EPISODE = 200  # steps
BATCH, WINDOW = 256, 8192
DISCOUNT, BLEND, REWARD_SCALE = 0.97, 0.02, 0.2
SPEC = {
    "state": Field(3, np.float32),
    "action": Field((), np.int64),
    "reward": Field((), np.float32),
    "next_state": Field(3, np.float32),
}


class Pendulums:
    """Pendulums that begin anew after an episode, each at its own time.

    Args:
        count: pendulums.
        device: torch device of their states.
        seed: of their first states.
    """

    def __init__(self, count: int, device: str, seed: int) -> None:
        self._chance = torch.Generator(device).manual_seed(seed)
        self._torques = torch.tensor(TORQUES, device=device)
        self._angle, self._speed = self._begin(count)
        self._age = torch.arange(count, device=device) * EPISODE // count

    def _begin(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        device = self._chance.device
        chance = torch.rand(2, count, generator=self._chance, device=device) * 2 - 1
        return chance[0] * math.pi, chance[1]

    @property
    def state(self) -> torch.Tensor:
        """Cosine and sine of the angle, and the speed, float32 `[count, 3]`."""
        scaled = self._speed / FASTEST
        return torch.stack([self._angle.cos(), self._angle.sin(), scaled], 1)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply torques, int64 `[count]`; return rewards and the states after them."""
        torque = self._torques[action]
        off = torch.remainder(self._angle + math.pi, 2 * math.pi) - math.pi
        reward = -(off**2 + 0.1 * self._speed**2 + 0.001 * torque**2)
        turning = 1.5 * GRAVITY * self._angle.sin() + 3 * torque
        self._speed = (self._speed + STEP_S * turning).clamp(-FASTEST, FASTEST)
        self._angle = self._angle + STEP_S * self._speed
        after = self.state
        self._age += 1
        ended = self._age >= EPISODE
        angle, speed = self._begin(len(ended))
        self._angle = torch.where(ended, angle, self._angle)
        self._speed = torch.where(ended, speed, self._speed)
        self._age = torch.where(ended, 0, self._age)
        return reward, after


class Learner:
    """A Q network, a copy that follows it slowly and gives targets, and updates."""

    def __init__(self, device: str, lr: float) -> None:
        self.network = nn.Sequential(
            *(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()),
            nn.Linear(64, len(TORQUES)),
        ).to(device)
        self.follower = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr)

    @torch.no_grad()
    def act(self, state: torch.Tensor) -> torch.Tensor:
        """Return the best action of each state."""
        return self.network(state).argmax(1)

    def update(self, batch: dict[str, torch.Tensor]) -> None:
        """Take a step on a batch. An episode ends by time alone: all states go on."""
        with torch.no_grad():
            best = self.act(batch["next_state"])[:, None]
            following = self.follower(batch["next_state"]).gather(1, best)[:, 0]
            target = REWARD_SCALE * batch["reward"] + DISCOUNT * following
        values = self.network(batch["state"])
        value = values.gather(1, batch["action"][:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(value, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            both = self.follower.parameters(), self.network.parameters()
            for behind, ahead in zip(*both, strict=True):
                behind.lerp_(ahead, BLEND)

    def mean_return(self, device: str) -> float:
        """Return the mean sum of rewards of 64 episodes without exploration."""
        world = Pendulums(64, device, seed=10_000)
        total = torch.zeros((), device=device)
        for _ in range(EPISODE):
            total += world.step(self.act(world.state))[0].mean()
        return float(total)


class Run(NamedTuple):
    """The returns of a run.

    Attributes:
        steps: that all pendulums together had made, at each evaluation.
        returns: at each evaluation, of the policy without exploration.
        updates: of the network, in all.
    """

    steps: list[int]
    returns: list[float]
    updates: int


def train(
    factor: float,
    steps: int,
    *,
    device: str = "cpu",
    lr: float = 3e-3,
    seed: int = 0,
    pendulums: int = 256,
    evaluations: int = 10,
) -> Run:
    """Make `steps` steps, and use each transition `factor` times."""
    torch.manual_seed(seed)
    learner, world = Learner(device, lr), Pendulums(pendulums, device, seed)
    # Each pendulum explores at a rate of its own, as Ape-X's actors do (1803.00933).
    rates = 0.4 ** (1 + 7 * torch.arange(pendulums, device=device) / pendulums)
    batch = {
        "state": torch.empty(BATCH, 3, device=device),
        "action": torch.empty(BATCH, dtype=torch.int64, device=device),
        "reward": torch.empty(BATCH, device=device),
        "next_state": torch.empty(BATCH, 3, device=device),
    }
    run, updates = Run([0], [learner.mean_return(device)], 0), 0
    options = {"batch_size": BATCH, "window": WINDOW, "factor": factor}
    with EchoBuffer(SPEC, device=device, seed=seed, **options) as buffer:
        for made in range(pendulums, steps + 1, pendulums):
            state, explores = world.state, torch.rand(pendulums, device=device) < rates
            random = torch.randint(len(TORQUES), (pendulums,), device=device)
            action = torch.where(explores, random, learner.act(state))
            reward, after = world.step(action)
            buffer.put_batch(
                {
                    "state": state,
                    "action": action,
                    "reward": reward,
                    "next_state": after,
                }
            )
            while buffer.ready():  # until more transitions are needed
                learner.update(buffer.next_batch(out=batch))
                updates += 1
            if made * evaluations >= steps * len(run.steps):
                run.steps.append(made)
                run.returns.append(learner.mean_return(device))
    return run._replace(updates=updates)


def plot(runs: dict[str, Sequence[Run]], path: Path) -> None:
    """Draw returns over steps: for each name the median, and lowest to highest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, some in runs.items():
        returns = np.array([run.returns for run in some])
        label = f"{name}: {some[0].updates:,} updates"
        axes.plot(some[0].steps, np.median(returns, 0), label=label)
        axes.fill_between(some[0].steps, returns.min(0), returns.max(0), alpha=0.2)
    axes.set_xlabel("steps of the environment")
    axes.set_ylabel("return of an episode")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> dict[float, list[Run]]:
    """Train with each factor, say the returns before and after, and return the runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--steps", type=int, default=61_440, help="of the environment")
    parser.add_argument("--factors", type=float, nargs="+", default=[1, 8])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    runs: dict[float, list[Run]] = {factor: [] for factor in args.factors}
    for seed in range(args.seeds):
        for factor, some in runs.items():
            options = {"device": args.device, "lr": args.lr, "seed": seed}
            some.append(train(factor, args.steps, **options))
            first, *_, last = some[-1].returns
            print(
                f"factor {factor:g}, seed {seed}: {some[-1].updates:,} updates, return "
                f"{first:.0f} before, {last:.0f} after {args.steps:,} steps",
                flush=True,
            )
    if args.plot:
        plot({f"factor {factor:g}": some for factor, some in runs.items()}, args.plot)
    return runs


if __name__ == "__main__":
    main()
