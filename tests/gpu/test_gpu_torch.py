"""`echobuf.torch.EchoLoader` on a device: tensors that torch's allocator owns."""

import pytest

from gpu_records import ids_of, stack

pytestmark = pytest.mark.gpu
ALIGNMENT = 512  # the caching allocator rounds up to it


@pytest.fixture
def torch(cuda):
    import torch

    assert torch.cuda.is_available(), "this torch has no CUDA"
    return torch


def upstream(torch, count=320, size=32):
    """Batches on the host, as a DataLoader would make them."""
    whole = stack(range(count))
    for start in range(0, count, size):
        part = slice(start, start + size)
        yield {
            "id": torch.from_numpy(whole["id"][part]),
            "body": tuple(torch.from_numpy(leaf[part]) for leaf in whole["body"]),
        }


def loader(torch, device="cuda", **more):
    import echobuf.torch

    kwargs = {"batch_size": 16, "window": 96, "factor": 3, "seed": 9, **more}
    items = list(upstream(torch))
    return echobuf.torch.EchoLoader(items, batched=True, device=device, **kwargs)


def leaves(batch):
    return [batch["id"], *batch["body"]]


def test_tensors_come_in_the_order_of_the_cpu(cuda, torch):
    here, there = loader(torch, "cpu"), loader(torch, "cuda")
    for _ in range(2):
        want = [ids_of(cuda.host(batch)) for batch in here]
        got = []
        for batch in there:
            assert all(leaf.is_cuda for leaf in leaves(batch))
            got.append(ids_of(cuda.host(batch)))
        assert got == want


def test_the_caching_allocator_owns_them(cuda, torch):
    batches = iter(loader(torch))
    first = next(batches)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    second = next(batches)
    grown = torch.cuda.memory_allocated() - before
    size = sum(leaf.numel() * leaf.element_size() for leaf in leaves(second))
    assert size <= grown <= size + ALIGNMENT * len(leaves(second))
    del second
    assert torch.cuda.memory_allocated() == before
    del first
    assert torch.cuda.memory_allocated() < before


def test_memory_given_back_may_be_used_at_once(cuda, torch):
    """A batch is dropped while its use is queued: no `record_stream` is needed."""
    want = [sum(ids_of(cuda.host(batch))) for batch in loader(torch, "cpu")]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sums = []
        for batch in loader(torch):
            torch.cuda._sleep(1_000_000)  # noqa: SLF001 - torch's
            sums.append(batch["id"].sum())
            del batch
        assert [int(total) for total in sums] == want


def test_bfloat16_passes_as_it_is(torch):
    import echobuf.torch

    whole = torch.arange(256, dtype=torch.float32).to(torch.bfloat16).reshape(64, 4)
    made = echobuf.torch.EchoLoader(
        list(whole.split(8)),
        batched=True,
        batch_size=8,
        window=32,
        factor=2,
        device="cuda",
    )
    served = list(made)
    assert {batch.dtype for batch in served} == {torch.bfloat16}
    rows = torch.cat(served).cpu()
    order = rows[:, 0].float().argsort()
    assert torch.equal(rows[order], whole.repeat_interleave(2, dim=0))


# Python 3.12 and later warn of every fork beside a thread.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_data_loader_with_workers_feeds_a_device(cuda, torch):
    """They are forked after CUDA has started here, and leave it alone."""
    import echobuf.torch

    data = torch.utils.data.TensorDataset(torch.arange(200))
    source = torch.utils.data.DataLoader(data, batch_size=10, num_workers=2)
    made = echobuf.torch.EchoLoader(
        source, window=40, factor=2, batch_size=10, device="cuda"
    )
    for _ in range(2):
        served = torch.cat([batch[0] for batch in made]).cpu()
        assert sorted(served.tolist()) == sorted(2 * list(range(200)))


def test_gradients_flow_from_what_is_drawn(torch):
    weight = torch.ones(3, 5, device="cuda", requires_grad=True)
    batch = next(iter(loader(torch)))
    (batch["body"][0] * weight).sum().backward()
    torch.testing.assert_close(weight.grad, batch["body"][0].sum(0))
