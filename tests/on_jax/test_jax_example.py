"""The example trains."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_equinox" / "train.py"


def test_the_example_trains(capsys):
    names = runpy.run_path(str(EXAMPLE))
    names["main"].__globals__["EPOCHS"] = 1
    assert names["main"]() > 0.8
    assert "each example used" in capsys.readouterr().out
