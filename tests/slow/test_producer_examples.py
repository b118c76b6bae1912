"""The examples whose producers are on the device train there as on the CPU."""

import runpy
from pathlib import Path

import pytest

import echobuf
from echobuf.testing import simulated_cuda

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


@pytest.fixture
def example():
    """Import an example by its name, with one thread of torch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda name: runpy.run_path(str(EXAMPLES / name / "train.py"))
    torch.set_num_threads(threads)


def put_on_device(train, simulation, monkeypatch):
    """Have an example put what it made into a buffer on the device, from there.

    Returns:
        The numbers of examples of its puts.
    """
    counts = []

    class OnDevice(echobuf.EchoBuffer):
        def put_batch(self, batch):
            there = {name: simulation.array(x.numpy()) for name, x in batch.items()}
            super().put_batch(there)
            for leaf in there.values():
                leaf.free()  # in the order of the stream
            counts.append(len(next(iter(there.values()))))

    def make(spec, device, **options):
        assert device == "cpu"
        return OnDevice(spec, device="cuda", **options)

    monkeypatch.setitem(train.__globals__, "EchoBuffer", make)
    return counts


def test_a_learner_uses_transitions_that_are_put_from_the_device(example, monkeypatch):
    train = example("replay_ratio")["train"]
    expected = train(8, 4096, evaluations=2)
    # Four segments of 1,024 came, and each pass was over those that had come.
    assert expected.updates == (1 + 2 + 3 + 4) * 1024 // 256
    assert expected.steps == [0, 2048, 4096]
    with simulated_cuda(1) as simulation:
        counts = put_on_device(train, simulation, monkeypatch)
        assert train(8, 4096, evaluations=2) == expected
    assert counts == [256] * 16


def test_forecasts_are_put_back_from_the_device(example, monkeypatch):
    train = example("own_forecasts")["train"]
    expected = train(4, 40)
    with simulated_cuda(1) as simulation:
        counts = put_on_device(train, simulation, monkeypatch)
        assert train(4, 40) == expected
    assert counts == [256, *[16] * 40]


def test_pendulums_swing_as_gymnasiums(example):
    gymnasium = pytest.importorskip("gymnasium")
    names = example("replay_ratio")
    world = names["Pendulums"](8, "cpu", seed=3)
    other = gymnasium.make("Pendulum-v1").unwrapped
    other.reset()
    for action in [0, 4, 4, 2, 1, 3]:
        cosine, sine, speed = world.state.unbind(1)
        angle, speed = torch.atan2(sine, cosine), speed * names["FASTEST"]
        reward, after = world.step(torch.full((8,), action))
        for i in range(8):
            other.state = float(angle[i]), float(speed[i])
            seen, expected, *_ = other.step([names["TORQUES"][action]])
            assert float(reward[i]) == pytest.approx(float(expected), abs=1e-4)
            seen[2] /= names["FASTEST"]
            assert after[i].tolist() == pytest.approx(seen.tolist(), abs=1e-5)


def test_a_field_is_carried_and_none_of_it_is_lost(example):
    names = example("own_forecasts")
    runs = names["Flow"]("cpu").runs(3, seed=0)
    mean, spread = runs.mean((2, 3)), runs.std((2, 3))
    assert torch.allclose(mean, mean[:, :1].expand_as(mean), atol=1e-5)
    assert (spread.diff() < 1e-3).all()  # diffusion takes, and nothing gives
    assert ((runs[:, 1] - runs[:, 0]).abs().amax((1, 2)) > 0.1).all()


def test_forecasts_go_on_until_their_run_ends(example):
    names = example("own_forecasts")
    runs = names["Flow"]("cpu").runs(4, seed=0)
    examples = names["Examples"](runs, 4)
    last = {"field": runs[:, -2], "run": torch.arange(4)}
    last["time"] = torch.full((4,), names["LENGTH"] - 1)
    assert torch.equal(examples.target(last), runs[:, -1])
    made = torch.full_like(last["field"], 9.0)
    assert (examples.following(last, made)["field"] < 9).all()
    first = {**last, "time": torch.zeros(4, dtype=torch.int64)}
    seen = [examples.following(first, made) for _ in range(200)]
    kept = torch.stack([(each["field"] == 9).all((1, 2)) for each in seen])
    assert 0.6 < kept.float().mean() < 0.9  # 3 of 4
    for each, were_kept in zip(seen, kept, strict=True):
        assert (each["time"][were_kept] == 1).all()


@pytest.mark.parametrize(
    ("name", "few", "said"),
    [
        ("replay_ratio", ["--steps", "2048", "--factors", "8"], "12 updates, return"),
        ("own_forecasts", ["--updates", "20", "--fresh", "2"], "after 20 updates"),
    ],
)
def test_they_print_before_and_after_and_draw(
    example, tmp_path, capsys, name, few, said
):
    example(name)["main"]([*few, "--plot", str(tmp_path / "a.png")])
    text = capsys.readouterr().out
    assert said in text
    assert "before" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
