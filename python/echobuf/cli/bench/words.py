"""Figures of `echobuf bench` in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from echobuf.cli.bench.rounds import Outcome, paired_ratio

_BESIDE = {
    "bare copy limit": "{:.2f} of what bare copies allow",
    "NumPy ring": "{:.2f} times a NumPy ring",
    "DataLoader": "{:.1f} times a DataLoader with a shuffle buffer",
}


def sentences(answers: Mapping[str, Mapping[str, Outcome]]) -> list[str]:
    """Return a sentence for each question of `FIRST` that has figures."""
    said = []
    if "loader" in answers and (text := _of_loader(answers["loader"])):
        said.append(text)
    if "puts" in answers and (text := _of_puts(answers["puts"])):
        said.append(text)
    return said


def _of_loader(outcomes: Mapping[str, Outcome]) -> str:
    own = outcomes["echobuf EchoLoader"]
    if own.failed_at:
        return ""
    beside = [
        text.format(paired_ratio(other.seconds, own.seconds).median)
        for name, text in _BESIDE.items()
        if not (other := outcomes[name]).failed_at
    ]
    rate = float(f"{1 / own.median_s:.3g}")
    served = f"EchoLoader serves {rate:,.0f} examples of 12 KB a second here"
    return f"{served}: {', '.join(beside)}."


def _of_puts(outcomes: Mapping[str, Outcome]) -> str:
    arrays, tensors = outcomes["array and np.int64"], outcomes["tensor and int"]
    if arrays.failed_at or tensors.failed_at:
        return ""
    ratio = paired_ratio(tensors.seconds, arrays.seconds).median
    return (
        f"A put of a small tensor and an int takes {tensors.median_s * 1e9:.0f} ns, "
        f"{ratio:.2f} times one of an array and np.int64."
    )
