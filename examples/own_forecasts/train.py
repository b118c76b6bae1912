"""A forecaster learns from its own forecasts, in the window beside fresh states.

A network forecasts one step of a 2-D field that a flow carries about; longer forecasts
are made step by step. Trained on true states alone it never meets its own errors, which
grow from step to step. So what a training step forecasts is put back, as the input of a
later one whose target is the true state of that time, and 1 of `--fresh` examples is
fresh. The window holds examples whose forecasts are 0, 1, 2, ... steps long; each is
used once, and what was made of it takes its place. The idea is the replay buffer with
which Aurora is fine-tuned (Bodnar et al., arXiv:2405.13063).

Forecasts are put where they are: on a GPU nothing crosses the bus.

pip install '.[torch]' matplotlib
python train.py --fresh 1 8 --plot errors.png  # 1 of 1: true states alone
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from echobuf import EchoBuffer, Field

SIDE, LENGTH = 16, 60  # points along a side; steps of a run of the field
STEP, DIFFUSION, DRIFT = 0.2, 0.005, 0.5
BATCH, WINDOW, LR = 16, 256, 3e-3
TRAINED, HELD_OUT = 64, 32  # runs of the field
SPEC = {
    "field": Field((SIDE, SIDE), np.float32),
    "run": Field((), np.int64),
    "time": Field((), np.int64),
}


class Flow:
    """Whirls and a drift, which carry a field and let it diffuse.

    The equation is dc/dt = -u dc/dx - v dc/dy + DIFFUSION (d2c/dx2 + d2c/dy2) on a
    periodic square, by Fourier series and Runge and Kutta's steps.

    Args:
        device: torch device of the fields.
    """

    def __init__(self, device: str) -> None:
        at = torch.arange(SIDE, device=device) * 2 * math.pi / SIDE
        x, y = torch.meshgrid(at, at, indexing="ij")
        self.speed = torch.stack([x.sin() * y.cos() + DRIFT, -x.cos() * y.sin()])
        waves = torch.fft.fftfreq(SIDE, 1 / SIDE, device=device)
        self._waves = torch.stack(torch.meshgrid(waves, waves, indexing="ij"))
        self._kept = (self._waves.abs() < SIDE / 3).all(0)

    def _change(self, field: torch.Tensor) -> torch.Tensor:
        series = torch.fft.fft2(field)[:, None]
        slopes = torch.fft.ifft2(1j * self._waves * series).real
        carried = torch.fft.fft2((self.speed * slopes).sum(1)) * self._kept
        spread = DIFFUSION * self._waves.square().sum(0) * series[:, 0]
        return torch.fft.ifft2(-carried - spread).real

    def step(self, field: torch.Tensor) -> torch.Tensor:
        """Return fields, float32 `[n, SIDE, SIDE]`, a step later."""
        part = STEP / 2
        for _ in range(2):
            first = self._change(field)
            second = self._change(field + part / 2 * first)
            third = self._change(field + part / 2 * second)
            fourth = self._change(field + part * third)
            field = field + part / 6 * (first + 2 * second + 2 * third + fourth)
        return field

    def runs(self, count: int, seed: int) -> torch.Tensor:
        """Return runs from smooth random fields, `[count, LENGTH + 1, SIDE, SIDE]`."""
        chance = torch.Generator().manual_seed(seed)
        noise = torch.randn(count, SIDE, SIDE, generator=chance)
        noise = noise.to(self._waves.device)
        smooth = (-self._waves.square().sum(0) / 8).exp()
        field = torch.fft.ifft2(torch.fft.fft2(noise) * smooth).real
        fields = [field / field.std((1, 2), keepdim=True)]
        for _ in range(LENGTH):
            fields.append(self.step(fields[-1]))
        return torch.stack(fields, 1)


class Forecaster(nn.Module):
    """A network of three convolutions that sees the field and the flow.

    Args:
        speed: of the flow, `[2, SIDE, SIDE]`.
    """

    def __init__(self, speed: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("speed", speed)
        self.layers = nn.Sequential(
            *(self._convolution(3, 16), nn.Tanh()),
            *(self._convolution(16, 16), nn.Tanh()),
            self._convolution(16, 1),
        )

    @staticmethod
    def _convolution(seen: int, made: int) -> nn.Module:
        return nn.Conv2d(seen, made, 3, padding=1, padding_mode="circular")

    def forward(self, field: torch.Tensor) -> torch.Tensor:
        """Return fields, `[n, SIDE, SIDE]`, a step later."""
        speed = self.speed.expand(len(field), -1, -1, -1)
        return field + self.layers(torch.cat([field[:, None], speed], 1))[:, 0]


class Examples:
    """Examples to put: fresh ones, and those that go on from forecasts.

    Args:
        runs: of the field.
        one_of: 1 of so many examples is fresh.
    """

    def __init__(self, runs: torch.Tensor, one_of: int) -> None:
        self.runs, self.one_of = runs, one_of

    def fresh(self, count: int) -> dict[str, torch.Tensor]:
        """Return states of random runs and times, without the last."""
        device = self.runs.device
        run = torch.randint(len(self.runs), (count,), device=device)
        time = torch.randint(LENGTH, (count,), device=device)
        return {"field": self.runs[run, time], "run": run, "time": time}

    def target(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the true fields a step later."""
        return self.runs[batch["run"], batch["time"] + 1]

    def following(
        self, batch: dict[str, torch.Tensor], forecast: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return forecasts as the next inputs; fresh states where a run has ended."""
        fresh = self.fresh(len(forecast))
        time = batch["time"] + 1
        anew = torch.rand(len(time), device=time.device) < 1 / self.one_of
        anew |= time == LENGTH
        going_on = {"field": forecast, "run": batch["run"], "time": time}
        shape = {"field": (-1, 1, 1), "run": -1, "time": -1}
        return {
            name: torch.where(anew.view(shape[name]), fresh[name], going_on[name])
            for name in SPEC
        }


class Outcome(NamedTuple):
    """The errors of a trained forecaster.

    Attributes:
        before: error of the last step of a forecast before training.
        errors: root of the mean squared error over held-out runs after 1, 2, ... steps.
    """

    before: float
    errors: list[float]


@torch.no_grad()
def measure(network: Forecaster, runs: torch.Tensor) -> list[float]:
    """Return the root of the mean squared error after 1, 2, ... steps of a forecast."""
    field, errors = runs[:, 0], []
    for time in range(1, LENGTH + 1):
        field = network(field)
        errors.append((field - runs[:, time]).square().mean().sqrt())
    return torch.stack(errors).tolist()


def train(
    one_of: int, updates: int, *, device: str = "cpu", seed: int = 0, lr: float = LR
) -> Outcome:
    """Take `updates` steps; 1 of `one_of` examples is fresh, others are forecasts."""
    torch.manual_seed(seed)
    flow = Flow(device)
    examples = Examples(flow.runs(TRAINED, seed), one_of)
    held_out = flow.runs(HELD_OUT, 10_000)
    network = Forecaster(flow.speed).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    before = measure(network, held_out)[-1]
    batch = {name: value.clone() for name, value in examples.fresh(BATCH).items()}
    options = {"batch_size": BATCH, "window": WINDOW, "factor": 1}
    with EchoBuffer(SPEC, device=device, seed=seed, **options) as buffer:
        buffer.put_batch(examples.fresh(WINDOW))
        for _ in range(updates):
            buffer.next_batch(out=batch)
            forecast = network(batch["field"])
            loss = (forecast - examples.target(batch)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            buffer.put_batch(examples.following(batch, forecast.detach()))
    return Outcome(before, measure(network, held_out))


def plot(outcomes: dict[int, Sequence[Outcome]], path: Path) -> None:
    """Draw errors over steps: for each share the median, and lowest to highest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = range(1, LENGTH + 1)
    for one_of, some in outcomes.items():
        errors = np.array([outcome.errors for outcome in some])
        label = f"1 of {one_of} fresh" if one_of > 1 else "fresh only"
        axes.plot(steps, np.median(errors, 0), label=label)
        axes.fill_between(steps, errors.min(0), errors.max(0), alpha=0.2)
    axes.set_yscale("log")
    axes.set_xlabel("steps of the forecast")
    axes.set_ylabel("root of the mean squared error")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> dict[int, list[Outcome]]:
    """Train with each share of fresh examples, and say the errors of forecasts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument(
        "--fresh", type=int, nargs="+", default=[1, 8], help="1 of so many is fresh"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    outcomes: dict[int, list[Outcome]] = {one_of: [] for one_of in args.fresh}
    for seed in range(args.seeds):
        for one_of, some in outcomes.items():
            some.append(train(one_of, args.updates, device=args.device, seed=seed))
            before, errors = some[-1]
            said = ", ".join(f"{errors[at - 1]:.3f} at {at}" for at in (1, 20, LENGTH))
            print(
                f"1 of {one_of} fresh, seed {seed}: error {before:.3f} at {LENGTH} "
                f"steps before, {said} after {args.updates:,} updates",
                flush=True,
            )
    if args.plot:
        plot(outcomes, args.plot)
    return outcomes


if __name__ == "__main__":
    main()
