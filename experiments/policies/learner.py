"""The parts of a learner that a run needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from echobuf import EchoBuffer
from policies.condition import Condition

__all__ = ["CLIP", "Learner", "clipped", "limit"]

CLIP = 0.2


class Learner(ABC):
    """A policy, the generator that follows it, and updates from rollouts.

    Args:
        rate: the learning rate.
        seed: of the weights, the environment, actions and the window.

    Attributes:
        budget: samples that a run generates.
        chunk: samples that the generator makes before it takes the newest policy.
        batch: samples of an update.
        evaluate_every: samples between two evaluations.
        target: a mean reward.
        first_rate: tried first without replay, in half decades: -6 is 0.001.
    """

    budget: int
    chunk: int
    batch: int
    evaluate_every: int
    target: float
    first_rate: int

    @abstractmethod
    def __init__(self, rate: float, seed: int) -> None: ...

    @abstractmethod
    def buffer(self, condition: Condition) -> EchoBuffer:
        """Return a window of rollouts; a segment of it is a chunk."""

    @abstractmethod
    def generate(self) -> Any:
        """Return `chunk` samples of the policy as it is."""

    @abstractmethod
    def put(self, buffer: EchoBuffer, made: Any, version: int) -> None:
        """Put what was generated, with the number of the policy that made it."""

    @abstractmethod
    def update(self, batch: Any) -> bool:
        """Learn from a batch of the buffer; return True if that was a step."""

    @abstractmethod
    def evaluate(self) -> tuple[float, float]:
        """Return the mean reward of samples that nothing learns from, and entropy."""


def limit(condition: Condition) -> dict[str, int]:
    """Return the argument of a buffer that sets the condition's limit."""
    if condition.max_staleness is None:
        return {}
    return {"max_staleness": condition.max_staleness}


def clipped(log_prob: Any, stored: Any, advantage: Any) -> Any:
    """Return the clipped loss of each place, from log-probabilities now and then."""
    ratio = (log_prob - stored).exp()
    limited = ratio.clamp(1 - CLIP, 1 + CLIP)
    return -(ratio * advantage).minimum(limited * advantage)
