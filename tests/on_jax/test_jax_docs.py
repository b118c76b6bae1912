"""The code of docs/jax.md runs."""

from pathlib import Path

import jax
import numpy as np

import markdown
from echobuf.jax import EchoLoader
from echobuf.transforms import RandomCrop, ToDtype

ROOT = Path(__file__).parents[2]


def test_the_first_example():
    code = markdown.blocks(ROOT / "docs" / "jax.md", "python")[0]
    names = {
        "upstream": [{"x": np.float32(i)} for i in range(300)],
        "train_step": lambda state, batch: state + batch["x"].sum(),
        "state": 0.0,
    }
    exec(code.replace("8192", "256"), names)
    stats = names["loader"].stats()
    assert stats.fresh == 300
    assert float(names["state"]) >= 300 * 299 / 2


def test_the_page():
    page = markdown.blocks(ROOT / "docs" / "jax.md", "python")[1:]
    names = {name: globals()[name] for name in ("jax", "np")}
    names |= {"EchoLoader": EchoLoader, "RandomCrop": RandomCrop, "ToDtype": ToDtype}
    code, _, rest = page[0].partition("\nchain")
    exec(code, names)
    image = np.zeros((256, 256, 3), np.uint8)
    names["examples"] = [names["Example"](image, np.int32(i)) for i in range(80)]
    exec("chain" + rest.replace("4096", "64"), names)
    for batch in names["loader"]:
        assert batch.image.shape[1:] == (224, 224, 3)
    names |= {
        "NamedSharding": jax.sharding.NamedSharding,
        "PartitionSpec": jax.sharding.PartitionSpec,
        "mine": [np.float32(i) for i in range(4096)],
    }
    exec(page[1], names)
    for batch in names["loader"]:
        assert len(batch.sharding.device_set) == 8
