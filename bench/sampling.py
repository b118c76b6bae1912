"""The candidates of the questions that draw batches from records in memory."""

from __future__ import annotations

from pathlib import Path

from echobuf.cli.bench import Candidate

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

SMALL = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 100_000,
    "batch": 256,
    "batches": 390,
    "chunks": 10,
}

# Peers that sample batches from records which they hold: name -> module.
REPLAY = {
    "NumPy ring": "numpy_ring",
    "cpprb": "cpprb_replay",
    "TorchRL": "torchrl_replay",
    "flashbax": "flashbax_replay",
    "tianshou": "tianshou_replay",
    "rlox": "rlox_replay",
}


def plain() -> tuple[Candidate, ...]:
    """What NumPy and torch do with an index, beside echobuf."""
    given = {"order_given": True}
    take, select = "peers.plain:Take", "peers.torch_index_select:Select"
    return (
        Candidate("plain copy", "peers.plain:Copy"),
        Candidate("echobuf", "own:Draw"),
        Candidate("echobuf out=", "own:Draw", {"out": True}),
        Candidate("numpy.take(out=)", take),
        Candidate("numpy.take, order given", take, given),
        Candidate("torch.index_select(out=)", select),
        Candidate("torch.index_select, order given", select, given),
    )


def replay() -> tuple[Candidate, ...]:
    """The peers that can sample batches."""
    peers = [
        Candidate(name, f"peers.{module}:Sample") for name, module in REPLAY.items()
    ]
    random = {"replacement": True}
    peers.append(Candidate("TorchRL, replacement", peers[2].target, random))
    return tuple(peers)
