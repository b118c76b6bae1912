"""A tiny language model that sorts digits, learned from groups of its answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from echobuf import EchoBuffer, Field
from policies.condition import Condition
from policies.learner import Learner, clipped, limit
from policies.model import Model

__all__ = ["Language"]

ASK, END, PAD = 10, 11, 12  # behind the ten digits
LEAST, MOST = 3, 4  # digits of a prompt
LENGTH = MOST + 1 + MOST + 1
GROUP, GROUPS, STEP = 8, 16, 8  # answers to a prompt; prompts of a chunk, of an update
TAUGHT, TAUGHT_BATCH, TAUGHT_RATE = 40, 64, 3e-3  # supervised, before all
EVALUATED = 256  # prompts


class Language(Learner):
    """GRPO: a record is the group of answers to one prompt, with their advantages.

    The reward of an answer is 1 if it has the digits of the prompt in order, else 0.
    Before that, the model is taught with a few correct answers, as all seeds are.
    """

    budget = 7_680
    chunk = GROUP * GROUPS
    batch = GROUP * STEP
    evaluate_every = 4 * chunk
    target = 0.55
    first_rate = -6

    def __init__(self, rate: float, seed: int) -> None:
        self._seed = seed
        torch.manual_seed(seed)
        self._random = torch.Generator().manual_seed(seed)
        self._prompts = np.random.default_rng(seed)
        self._model = Model(PAD + 1, LENGTH)
        self._teach()
        self._optimizer = torch.optim.Adam(self._model.parameters(), rate)
        self._waiting: list[Any] = []

    def _teach(self) -> None:
        optimizer = torch.optim.Adam(self._model.parameters(), TAUGHT_RATE)
        for _ in range(TAUGHT):
            texts = np.full((TAUGHT_BATCH, LENGTH), PAD)
            for text in texts:
                digits = self._prompt()
                whole = [*digits, ASK, *sorted(digits), END]
                text[: len(whole)] = whole
            wanted = torch.from_numpy(texts)
            chances = self._model(wanted[:, :-1])
            answered = (wanted == ASK).cumsum(1)[:, :-1] > 0
            taken = answered & (wanted[:, 1:] != PAD)
            loss = nn.functional.nll_loss(chances[taken], wanted[:, 1:][taken])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _prompt(self) -> list[int]:
        count = self._prompts.integers(LEAST, MOST + 1)
        return self._prompts.integers(0, 10, count).tolist()

    def buffer(self, condition: Condition) -> EchoBuffer:
        """Return a window of `factor` chunks, counted in groups."""
        spec = {
            "text": Field((GROUP, None), np.int64, max_length=LENGTH),
            "log_prob": Field((GROUP, None), np.float32, max_length=LENGTH),
            "asked": Field(GROUP, np.int64),
            "advantage": Field(GROUP, np.float32),
        }
        return EchoBuffer(
            spec,
            unit="batch",
            window=GROUPS * condition.factor,
            factor=condition.factor,
            seed=self._seed,
            ragged="padded",
            pad_value={"text": PAD, "log_prob": 0, "asked": 0, "advantage": 0},
            with_info=True,
            **limit(condition),
        )

    def _answer(
        self, prompts: list[list[int]]
    ) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Return texts of prompts of any lengths, log-probabilities, and entropy."""
        texts = torch.full((len(prompts), LENGTH), PAD)
        asked = torch.tensor([len(prompt) for prompt in prompts])
        for text, prompt in zip(texts, prompts, strict=True):
            text[: len(prompt)] = torch.tensor(prompt)
        texts[torch.arange(len(prompts)), asked] = ASK
        log_prob = torch.zeros(len(prompts), LENGTH)
        going = torch.ones(len(prompts), dtype=torch.bool)
        entropy = 0.0
        for place in range(LEAST + 1, LENGTH):
            chances = self._model(texts[:, :place])[:, -1]
            drawn = torch.multinomial(chances.exp(), 1, generator=self._random)
            here = going & (asked < place)
            entropy -= float((chances.exp() * chances).sum(-1)[here].sum())
            texts[here, place] = drawn[here, 0]
            log_prob[here, place] = chances.gather(1, drawn)[here, 0]
            going = going & ~(here & (texts[:, place] == END))
        return texts, log_prob, entropy / float((log_prob != 0).sum())

    @torch.no_grad()
    def generate(self) -> list[dict[str, Any]]:
        """Return the groups of some prompts."""
        prompts = [self._prompt() for _ in range(GROUPS)]
        asked = [prompt for prompt in prompts for _ in range(GROUP)]
        texts, log_prob, _ = self._answer(asked)
        rewards = rewards_of(texts, asked).reshape(GROUPS, GROUP)
        away = rewards - rewards.mean(1, keepdims=True)
        advantage = away / (rewards.std(1, keepdims=True) + 1e-4)
        lengths = (texts != PAD).sum(1).tolist()
        made = []
        for number, prompt in enumerate(prompts):
            rows = range(number * GROUP, (number + 1) * GROUP)
            made.append(
                {
                    "text": [texts[row, : lengths[row]].numpy() for row in rows],
                    "log_prob": [log_prob[row, : lengths[row]].numpy() for row in rows],
                    "asked": np.full(GROUP, len(prompt)),
                    "advantage": advantage[number].astype(np.float32),
                }
            )
        return made

    def put(self, buffer: EchoBuffer, made: Any, version: int) -> None:
        """Put each group as one batch."""
        for group in made:
            buffer.put(group, timeout=60, version=version)  # there is room

    def update(self, batch: Any) -> bool:
        """Take one step of GRPO once there are STEP groups."""
        self._waiting.append(batch)
        if len(self._waiting) < STEP:
            return False
        groups, self._waiting = self._waiting, []
        length = max(group["text"].values.shape[1] for group in groups)
        text = _joined([group["text"].values for group in groups], length, PAD)
        stored = _joined([group["log_prob"].values for group in groups], length, 0)
        advantage = torch.from_numpy(np.concatenate([g["advantage"] for g in groups]))
        asked = torch.from_numpy(np.concatenate([g["asked"] for g in groups]))
        chances = self._model(text[:, :-1])
        log_prob = chances.gather(2, text[:, 1:, None])[..., 0]
        place = torch.arange(1, length)
        taken = (place > asked[:, None]) & (text[:, 1:] != PAD)
        loss = clipped(log_prob, stored[:, 1:], advantage[:, None])[taken].mean()
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        return True

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Return the share of right answers to other prompts, and their entropy."""
        chance = np.random.default_rng(10_000 + self._seed)
        counts = chance.integers(LEAST, MOST + 1, EVALUATED)
        prompts = [chance.integers(0, 10, count).tolist() for count in counts]
        texts, _, entropy = self._answer(prompts)
        return float(rewards_of(texts, prompts).mean()), entropy


def rewards_of(texts: torch.Tensor, prompts: list[list[int]]) -> np.ndarray:
    """Return 1 for each text whose answer is right, else 0."""
    found = []
    for text, prompt in zip(texts.tolist(), prompts, strict=True):
        answer = text[len(prompt) + 1 :]
        wanted = [*sorted(prompt), END]
        found.append(answer[: len(wanted)] == wanted)
    return np.array(found, np.float32)


def _joined(parts: list[np.ndarray], length: int, padding: float) -> torch.Tensor:
    whole = [
        np.pad(p, ((0, 0), (0, length - p.shape[1])), constant_values=padding)
        for p in parts
    ]
    return torch.from_numpy(np.concatenate(whole))
