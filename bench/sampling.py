"""The peers of the questions that draw batches from records in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from echobuf.cli.bench import Candidate, Question

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

# Peers that sample batches from records which they hold: name -> module.
REPLAY = {
    "cpprb": "cpprb_replay",
    "TorchRL": "torchrl_replay",
    "flashbax": "flashbax_replay",
    "tianshou": "tianshou_replay",
    "rlox": "rlox_replay",
}


def with_peers(question: Question, *peers: Candidate) -> Question:
    """Add peers from this folder to a question."""
    return replace(
        question, candidates=(*question.candidates, *peers), path=(*question.path, HERE)
    )


def select() -> tuple[Candidate, ...]:
    """Return the candidate of torch's selection by an index."""
    target = "peers.torch_index_select:Select"
    return (
        Candidate("torch.index_select(out=)", target),
        Candidate("torch.index_select, order given", target, {"order_given": True}),
    )


def replay() -> tuple[Candidate, ...]:
    """Return the peers that can sample batches."""
    peers = {
        name: Candidate(name, f"peers.{module}:Sample")
        for name, module in REPLAY.items()
    }
    torchrl = replace(
        peers["TorchRL"], name="TorchRL, replacement", settings={"replacement": True}
    )
    return (*peers.values(), torchrl)
