"""The code of docs/ragged.md on attention: no example sees another one."""

from pathlib import Path

import numpy as np
import pytest

import markdown

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

import echobuf.torch  # noqa: E402

BLOCKS = markdown.blocks(Path(__file__).parents[2] / "docs" / "ragged.md", "python")

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]

LENGTHS = [3 + number * 7 % 13 for number in range(60)]
HEADS, WIDTH = 2, 8
EXAMPLES = [
    {"tokens": np.arange(length, dtype=np.int64) + 20 * number}
    for number, length in enumerate(LENGTHS)
]
EMBEDDED = torch.randn(
    3, 20 * len(LENGTHS), HEADS, WIDTH, generator=torch.Generator().manual_seed(0)
)


def block(text):
    (code,) = (code for code in BLOCKS if text in code)
    return code


def loader(**more):
    return echobuf.torch.EchoLoader(
        EXAMPLES, window=32, factor=2, payload_bytes=8000, seed=1, **more
    )


@pytest.fixture(scope="module")
def names():
    found = {}
    with (
        loader(batch_size=8) as found["texts"],
        loader(batch_size=4, pack_to=16) as found["rows"],
    ):
        exec(block("cu_seqlens_of_rows"), found)
    exec(block("def attend_nested"), found)
    return found


def attend_alone(tokens, *, causal=False):
    """The attention of one example, `[length, heads, width]`."""
    q, k, v = EMBEDDED[:, tokens].transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1)


def sequences(tokens, cu_seqlens):
    assert cu_seqlens.dtype == torch.int32
    assert cu_seqlens[0] == 0
    assert cu_seqlens[-1] == len(tokens)
    lengths = cu_seqlens.diff()
    assert (lengths > 0).all()
    return tokens.split(lengths.tolist())


def whole(tokens):
    """Say if tokens are all those of one example."""
    expected = EXAMPLES[int(tokens[0]) // 20]["tokens"]
    return torch.equal(tokens, torch.from_numpy(expected))


def test_offsets_and_positions_give_cu_seqlens(names):
    texts = sequences(names["ragged"].values, names["cu_seqlens"])
    assert len(texts) == 8
    assert names["longest"] == max(map(len, texts))
    in_rows = sequences(names["tokens"], names["cu_seqlens_of_rows"])
    assert len(in_rows) == len(names["packed"].to_list()) > 4
    assert (names["packed"].segment_ids == 0).any()
    assert all(map(whole, (*texts, *in_rows)))


# torch warns of its own nested tensors in this call on the CPU.
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize(
    ("tokens", "offsets"),
    [
        (lambda names: names["ragged"].values, "cu_seqlens"),
        (lambda names: names["tokens"], "cu_seqlens_of_rows"),
    ],
    ids=["packed", "rows"],
)
def test_nested_tensors_attend_within_examples(names, tokens, offsets):
    tokens, offsets = tokens(names), names[offsets]
    attended = names["attend_nested"](*EMBEDDED[:, tokens], offsets.long())
    alone = [attend_alone(each) for each in sequences(tokens, offsets)]
    torch.testing.assert_close(attended, torch.cat(alone))


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_attends_within_the_examples_of_rows(names, causal):
    packed = names["packed"]
    q, k, v = EMBEDDED[:, packed.values].transpose(2, 3)
    attended = names["attend_rows"](q, k, v, packed.segment_ids, causal=causal)
    assert attended.isfinite().all()
    attended = attended.transpose(1, 2)[names["taken"]]
    texts = sequences(names["tokens"], names["cu_seqlens_of_rows"])
    alone = [attend_alone(each, causal=causal) for each in texts]
    torch.testing.assert_close(attended, torch.cat(alone))
    # Rows taken whole would give something else.
    rows = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    assert not torch.allclose(rows[names["taken"]], torch.cat(alone), atol=1e-2)
