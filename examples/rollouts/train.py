"""A policy learns to catch a ball from rollouts that another process generates.

A record is a whole episode, with the log-probability that each action had. The window
serves each one `--factor` times, in shuffled passes; with `--max-staleness s` an
episode expires once one of a policy that is more than s updates younger has arrived.
The loss is PPO's: the ratio of the chances now and then, clipped.

`generators.py` has the process; it may be killed at any time. `--slow-ms` makes an
episode take as long as one of a simulator, or of a language model.

pip install '.[torch]'
python train.py --factor 4
"""

import argparse
import functools
import time

import numpy as np
import torch
from generators import Generator, Policy
from torch import nn

from echobuf import EchoBuffer, Field

WIDTH, STEPS, ACTIONS = 7, 8, 3  # columns; steps of an episode; left, stay, right
SEEN = 2 * WIDTH + 1  # columns of ball and paddle, and the time
BATCH, CLIP, ENTROPY = 32, 0.2, 0.01
SPEC = {
    "seen": Field((STEPS, SEEN), np.float32),
    "action": Field(STEPS, np.int64),
    "log_prob": Field(STEPS, np.float32),
    "reward": Field((), np.float32),
}


def make_network() -> nn.Module:
    """Return the policy, which gives scores of the actions."""
    return nn.Sequential(nn.Linear(SEEN, 64), nn.Tanh(), nn.Linear(64, ACTIONS))


def get_weights(network: nn.Module) -> np.ndarray:
    """Return all weights as one array."""
    return nn.utils.parameters_to_vector(network.parameters()).detach().numpy()


class Play:
    """Plays episodes with the newest policy, in the generator's process."""

    def __init__(self, policy: Policy, seed: int, slow_s: float) -> None:
        torch.set_num_threads(1)
        self.policy, self.slow_s = policy, slow_s
        self.network = make_network()
        self.chance = np.random.default_rng(seed)

    @torch.no_grad()
    def __call__(self, record: dict[str, np.ndarray]) -> int:
        """Write an episode into the arrays; return the version of its policy."""
        weights, version = self.policy.read()
        nn.utils.vector_to_parameters(
            torch.from_numpy(weights), self.network.parameters()
        )
        ball, paddle = self.chance.integers(0, WIDTH, 2)
        for step in range(STEPS):
            seen = record["seen"][step]
            seen[:] = 0
            seen[[ball, WIDTH + paddle]], seen[-1] = 1, step / STEPS
            scores = torch.log_softmax(self.network(torch.from_numpy(seen)), -1).numpy()
            action = int((self.chance.random() > np.exp(scores[:-1]).cumsum()).sum())
            record["action"][step], record["log_prob"][step] = action, scores[action]
            paddle = min(max(paddle + action - 1, 0), WIDTH - 1)
        record["reward"][...] = paddle == ball
        time.sleep(self.slow_s)
        return version


class Learner:
    """The policy and its updates."""

    def __init__(self, lr: float) -> None:
        self.network = make_network()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr)

    def step(self, batch: dict[str, np.ndarray]) -> None:
        """Take a step on a batch of episodes."""
        data = {name: torch.from_numpy(array) for name, array in batch.items()}
        scores = torch.log_softmax(self.network(data["seen"]), -1)
        log_prob = scores.gather(2, data["action"][..., None])[..., 0]
        ratio = (log_prob - data["log_prob"]).exp()
        advantage = (data["reward"] - data["reward"].mean())[:, None]
        limited = ratio.clamp(1 - CLIP, 1 + CLIP)
        loss = -(ratio * advantage).minimum(limited * advantage).mean()
        loss = loss + ENTROPY * (scores.exp() * scores).sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(arguments: list[str] | None = None) -> list[float]:
    """Train, and return the mean reward of each batch's first uses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=6000, help="to generate")
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--max-staleness", type=int, help="in updates")
    parser.add_argument("--window", type=int, default=256, help="episodes")
    parser.add_argument("--slow-ms", type=float, default=1.0, help="for an episode")
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    torch.manual_seed(args.seed)
    learner, rewards = Learner(args.lr), []
    weights = get_weights(learner.network)
    policy = Policy(weights.size)
    policy.publish(weights, 0)
    make_play = functools.partial(Play, policy, args.seed, args.slow_ms / 1000)
    limit = {} if args.max_staleness is None else {"max_staleness": args.max_staleness}
    with EchoBuffer(
        SPEC,
        batch_size=BATCH,
        window=args.window,
        factor=args.factor,
        seed=args.seed,
        with_info=True,
        **limit,
    ) as buffer:
        generator = Generator(buffer, SPEC, make_play)
        generator.start()
        updates = ages = 0
        while buffer.stats().fresh < args.episodes:
            batch, info = next(buffer)
            ages += int((updates - info.version).sum())
            learner.step(batch)
            updates += 1
            policy.publish(get_weights(learner.network), updates)
            first = batch["reward"][info.echo == 0]
            rewards += [float(first.mean())] if len(first) else []
            if updates % 100 == 0:
                stats = buffer.stats()
                print(
                    f"update {updates}, {stats.fresh} episodes, each used "
                    f"{stats.effective_factor:.2f} times, reward of new ones "
                    f"{np.mean(rewards[-50:]):.2f}, mean age "
                    f"{ages / (updates * BATCH):.0f} updates"
                )
        buffer.close()
        generator.stop()
    return rewards


if __name__ == "__main__":
    main()
