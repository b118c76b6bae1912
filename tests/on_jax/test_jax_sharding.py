"""Global arrays over 8 devices of the host, in one process and in two."""

import socket
import subprocess
import sys
from collections import Counter

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import echobuf
import echobuf.jax

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

OPTIONS = {"batch_size": 8, "window": 24, "factor": 3, "seed": 3}


def named(*spec):
    """Made in the test, not when it is collected: that starts JAX's threads."""
    return lambda: NamedSharding(jax.make_mesh((4, 2), ("data", "model")), P(*spec))


def items(n=64):
    return [
        {"x": np.arange(i, i + 6, dtype=np.float32), "id": np.int32(i)}
        for i in range(n)
    ]


@pytest.mark.parametrize(
    "make",
    [
        named("data"),
        named(("data", "model")),
        named(),
        lambda: SingleDeviceSharding(jax.devices("cpu")[5]),
        lambda: {"x": named("data", "model")(), "id": named("data")()},
    ],
    ids=["data", "all", "replicated", "single", "per leaf"],
)
def test_batches_are_those_without_sharding(make):
    sharding = make()
    loader = echobuf.jax.EchoLoader(items(), sharding=sharding, **OPTIONS)
    plain = list(echobuf.EchoLoader(items(), **OPTIONS))
    batches = list(loader)
    assert len(batches) == len(plain) == len(loader) == 24
    for batch, want in zip(batches, plain, strict=True):
        for name, leaf in batch.items():
            where = sharding[name] if isinstance(sharding, dict) else sharding
            assert leaf.sharding.is_equivalent_to(where, leaf.ndim)
            np.testing.assert_array_equal(leaf, want[name])


def test_memory_is_not_used_again_too_soon():
    loader = echobuf.jax.EchoLoader(items(), sharding=named("data")(), **OPTIONS)
    sums = jax.jit(lambda batch: batch["x"].sum(axis=1) - 6 * batch["id"])
    results = [sums(batch) for batch in loader]
    for result in results:
        np.testing.assert_array_equal(result, np.full(8, 15, np.float32))


@pytest.mark.parametrize(
    ("make", "more", "message"),
    [
        (named("data"), {"batch_size": 6}, r"not divide `batch\['"),
        (named(None, "data"), {}, r"not divide `batch\['id'\]`"),
        (lambda: {"y": named()()}, {}, "`sharding` is no prefix of a batch"),
        (lambda: P("data"), {}, "must be a jax.sharding.Sharding"),
        (list, {}, "no sharding in it"),
        (named(), {"device": "cuda"}, "leave `device` out"),
    ],
)
def test_shardings_that_do_not_fit_are_refused(make, more, message):
    options = OPTIONS | {"sharding": make()} | more
    with pytest.raises(echobuf.OptionError, match=message):
        iter(echobuf.jax.EchoLoader(items(), **options))


def test_a_shorter_last_batch_that_cannot_be_divided_says_so():
    options = OPTIONS | {"factor": 1, "sharding": named("data")()}
    with pytest.raises(echobuf.OptionError, match="drop_last=True"):
        list(echobuf.jax.EchoLoader(items(21), **options))
    assert len(list(echobuf.jax.EchoLoader(items(20), **options))) == 3  # 8, 8, 4
    dropping = echobuf.jax.EchoLoader(items(21), drop_last=True, **options)
    assert len(list(dropping)) == 2


PROCESS = """
import sys
import jax
number, port = int(sys.argv[1]), sys.argv[2]
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", 2, number)
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from echobuf.jax import EchoLoader
where = NamedSharding(jax.make_mesh((8,), ("data",)), P("data"))
mine = [{"id": np.int32(i)} for i in range(number, 48, 2)]
loader = EchoLoader(mine, batch_size=4, window=12, factor=2, sharding=where)
total = jax.jit(lambda batch: batch["id"].sum())
for batch in loader:
    assert batch["id"].shape == (8,) and len(batch["id"].addressable_shards) == 4
    ids = [int(i) for s in batch["id"].addressable_shards for i in s.data]
    print("ids", *ids, "total", int(total(batch)), flush=True)
"""


def test_two_processes_make_global_batches(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(number), str(port)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    lines = []
    for program in programs:
        out, errors = program.communicate(timeout=120)
        assert program.returncode == 0, errors
        lines.append([line for line in out.splitlines() if line.startswith("ids")])
    assert len(lines[0]) == len(lines[1]) == 12
    uses = Counter()
    for one, other in zip(*lines, strict=True):
        ids, totals = [], set()
        for line in (one, other):
            numbers, total = line.removeprefix("ids ").split(" total ")
            ids += [int(i) for i in numbers.split()]
            totals.add(int(total))
        assert totals == {sum(ids)}
        uses.update(ids)
    assert uses == dict.fromkeys(range(48), 2)
