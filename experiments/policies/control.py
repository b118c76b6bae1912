"""A small policy that balances a pole, learned from transitions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from echobuf import EchoBuffer, Field
from policies.condition import Condition
from policies.learner import Learner, clipped, limit

__all__ = ["Control"]

ENVIRONMENT = "CartPole-v1"
COPIES, STEPS = 32, 32
DISCOUNT, TRACE = 0.99, 0.95
ENTROPY, VALUE = 0.01, 0.5
SCALE = 0.05  # of rewards, so that values are near 1
EPISODES = 16  # of an evaluation


class Control(Learner):
    """PPO on CartPole: a record is a transition with its advantage and return."""

    budget = 61_440
    chunk = COPIES * STEPS
    batch = 256
    evaluate_every = 3 * chunk
    target = 400.0
    first_rate = -5

    def __init__(self, rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        self._seed = seed
        self._policy, self._value = _network(2, 0.01), _network(1, 1.0)
        weights = [*self._policy.parameters(), *self._value.parameters()]
        self._optimizer = torch.optim.Adam(weights, rate)
        self._random = torch.Generator().manual_seed(seed)
        self._environments = _environments(COPIES)
        self._observation, _ = self._environments.reset(seed=seed)
        self._evaluations = _environments(EPISODES)

    def buffer(self, condition: Condition) -> EchoBuffer:
        """Return a window of transitions; a segment of it is a chunk."""
        spec = {
            "observation": Field(4, np.float32),
            "action": Field((), np.int64),
            "log_prob": Field((), np.float32),
            "advantage": Field((), np.float32),
            "return": Field((), np.float32),
        }
        return EchoBuffer(
            spec,
            batch_size=self.batch,
            window=self.chunk * condition.factor,
            factor=condition.factor,
            seed=self._seed,
            with_info=True,
            **limit(condition),
        )

    def put(self, buffer: EchoBuffer, made: Any, version: int) -> None:
        """Put a chunk of transitions."""
        buffer.put_batch(made, timeout=60, version=version)  # there is room

    def _act(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = torch.log_softmax(self._policy(torch.from_numpy(observation)), -1)
        action = torch.multinomial(scores.exp(), 1, generator=self._random)
        return action[:, 0].numpy(), scores.gather(1, action)[:, 0].numpy()

    @torch.no_grad()
    def generate(self) -> dict[str, np.ndarray]:
        """Return the transitions of some steps in all environments."""
        seen, after = np.empty((2, STEPS, COPIES, 4), np.float32)
        action = np.empty((STEPS, COPIES), np.int64)
        log_prob, reward = np.empty((2, STEPS, COPIES), np.float32)
        ended, over = np.empty((2, STEPS, COPIES), bool)
        for t in range(STEPS):
            seen[t] = self._observation
            action[t], log_prob[t] = self._act(self._observation)
            after[t], reward[t], ended[t], cut, _ = self._environments.step(action[t])
            over[t] = ended[t] | cut
            self._observation = _begun(self._environments, over[t])
        both = torch.from_numpy(np.stack([seen, after]))
        value, following = self._value(both)[..., 0]
        value, following = value.numpy(), np.where(ended, 0, following.numpy())
        surprise = SCALE * reward + DISCOUNT * following - value
        advantage = np.empty_like(reward)
        trace = np.zeros(COPIES, np.float32)
        for t in reversed(range(STEPS)):
            trace = surprise[t] + DISCOUNT * TRACE * np.where(over[t], 0, trace)
            advantage[t] = trace
        made = {
            "observation": seen,
            "action": action,
            "log_prob": log_prob,
            "advantage": advantage,
            "return": advantage + value,
        }
        return {name: x.reshape(-1, *x.shape[2:]) for name, x in made.items()}

    def update(self, batch: Any) -> bool:
        """Take one step of PPO."""
        batch = {name: torch.from_numpy(array) for name, array in batch.items()}
        scores = torch.log_softmax(self._policy(batch["observation"]), -1)
        log_prob = scores.gather(1, batch["action"][:, None])[:, 0]
        advantage = batch["advantage"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        loss = clipped(log_prob, batch["log_prob"], advantage).mean()
        value = self._value(batch["observation"])[:, 0]
        loss = loss + VALUE * (value - batch["return"]).square().mean()
        loss = loss + ENTROPY * (scores.exp() * scores).sum(-1).mean()
        self._optimizer.zero_grad()
        loss.backward()
        for network in (self._policy, self._value):
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        self._optimizer.step()
        return True

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Return the mean reward of whole episodes, and the entropy of actions."""
        observation, _ = self._evaluations.reset(seed=10_000 + self._seed)
        alive = np.ones(EPISODES, bool)
        reward = entropy = 0.0
        while alive.any():
            scores = torch.log_softmax(self._policy(torch.from_numpy(observation)), -1)
            chances = scores.exp()
            entropy -= float((chances * scores).sum(-1)[alive].sum())
            action = torch.multinomial(chances, 1, generator=self._random)[:, 0]
            observation, won, ended, cut, _ = self._evaluations.step(action.numpy())
            reward += won[alive].sum()
            alive &= ~(ended | cut)
        return float(reward) / EPISODES, entropy / float(reward)


def _environments(count: int) -> Any:
    return gymnasium.make_vec(
        ENVIRONMENT, num_envs=count, vectorization_mode="vector_entry_point"
    )


def _begun(environments: Any, over: np.ndarray) -> np.ndarray:
    """Begin new episodes at once, where gymnasium would with the next step."""
    begun = environments.unwrapped
    fresh = begun.np_random.uniform(begun.low, begun.high, (4, over.sum()))
    begun.state[:, over] = fresh
    begun.steps[over] = 0
    begun.prev_done[:] = False
    return begun.state.T.astype(np.float32)


def _network(outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    last = nn.Linear(64, outputs)
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    nn.init.orthogonal_(last.weight, gain)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)
