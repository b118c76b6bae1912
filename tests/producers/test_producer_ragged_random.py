"""Random ragged examples in all forms, from the host and the device in turn."""

import random

import numpy as np
import pytest
from device_examples import DTYPES, served, values

from echobuf import Field, Ragged
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

FORMS = ["example", "ragged", "list", "host"]
OPTIONS = [
    {"batch_size": 2},
    {"max_rows": 80},
    {"batch_size": 2, "ragged": "padded"},
    {"batch_size": 2, "pad_to": 8},
]


def random_fields(dice):
    """Fields of which the first at least is ragged."""

    def shape(is_ragged):
        rest = dice.choice([(), (3,), (2, 2), (75,)])
        return (None, *rest) if is_ragged else rest

    return {
        f"leaf {i}": Field(shape(i == 0 or dice.random() < 0.5), dice.choice(DTYPES))
        for i in range(dice.randint(1, 4))
    }


def random_example(fields, chance):
    example = {}
    for name, field in fields.items():
        length = int(chance.choice([0, 1, 2, 7, 30]))
        shape = [length if extent is None else extent for extent in field.shape]
        example[name] = values(Field(shape, field.dtype), (), chance)
    return example


def together(examples, fields, form, move):
    """Return a batch of examples, and the arrays that were moved for it."""
    batch, moved = {}, []

    def kept(array):
        moved.append(move(array))
        return moved[-1]

    for name, field in fields.items():
        arrays = [each[name] for each in examples]
        if None not in field.shape:
            batch[name] = kept(np.stack(arrays))
        elif form == "list":
            batch[name] = [kept(array) for array in arrays]
        else:
            offsets = np.cumsum([0, *map(len, arrays)])
            batch[name] = Ragged(kept(np.concatenate(arrays)), offsets)
    return batch, moved


def producer(examples, fields, turns, simulation):
    """Puts in turns of sizes and forms; all is overwritten and freed at once."""

    def put(buffer):
        at = 0
        for size, form in turns:
            part = examples[at : at + size]
            is_host = simulation is None or form == "host"
            move = np.asarray if is_host else simulation.array
            if part and form == "example":
                part = part[:1]
                one = {name: move(leaf) for name, leaf in part[0].items()}
                moved = list(one.values())
                buffer.put(one, timeout=WAIT_S)
            elif part:
                batch, moved = together(part, fields, form, move)
                buffer.put_batch(batch, timeout=WAIT_S)
            at += len(part)
            for array in moved if part and not is_host else []:
                array.copy_from(0)
                array.free()

    return put


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("seed", range(12))
def test_all_forms_are_drawn_as_from_the_host(seed, kernels):
    dice, chance = random.Random(seed), np.random.default_rng(seed)
    fields = random_fields(dice)
    examples = [random_example(fields, chance) for _ in range(40)]
    turns = [(dice.choice([1, 3, 9]), dice.choice(FORMS)) for _ in range(60)]
    options = {
        "window": dice.randint(4, 16),
        "factor": dice.choice([1, 2, 3, 2.5]),
        "seed": seed,
        "payload_bytes": 200_000,
        **dice.choice(OPTIONS),
    }
    expected = served(fields, options, producer(examples, fields, turns, None), "cpu")
    with simulated_cuda(seed, kernels) as simulation:
        put = producer(examples, fields, turns, simulation)
        assert served(fields, options, put, "cuda") == expected
