"""`echobuf.jax.EchoLoader` with `with_info=True`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import echobuf
import echobuf.jax
from schedule_reference import draw_infos

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


@pytest.mark.parametrize("factor", [2, "auto"])
def test_an_info_is_a_pytree_that_a_compiled_step_takes(factor):
    items = [{"x": np.float32(number)} for number in range(40)]
    loader = echobuf.jax.EchoLoader(
        items, batch_size=8, window=16, factor=factor, with_info=True
    )
    traces = []

    @jax.jit
    def step(batch, info):
        traces.append(None)
        return batch["x"].sum(), info.index, info.echo

    infos, sizes = [], set()
    for batch, info in loader:
        assert type(info) is echobuf.BatchInfo
        assert all(isinstance(leaf, jax.Array) for leaf in info)
        assert info.echo.dtype == jnp.int32
        assert info.index.dtype == jnp.asarray(np.int64(0)).dtype
        total, index, echo = step(batch, info)
        assert float(total) == sum(index.tolist())
        sizes.add(len(index))
        infos += zip(index.tolist(), echo.tolist(), strict=True)
    assert len(traces) == len(sizes)
    assert infos == draw_infos(index for index, _ in infos)
    assert {index for index, _ in infos} == set(range(40))
