"""PyTorch Lightning trains with the loader: it is passed in, and that is all."""

import pytest

pytest.importorskip("lightning")

from collections import Counter
from itertools import chain
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, IterableDataset

import echobuf
import torchrun
from echobuf.torch import EchoLoader
from on_lightning import Recorder, checkpoints, fit, make_trainer
from plain_loop import EXAMPLES, STEPS, expected, make_loader

pytestmark = [
    pytest.mark.usefixtures("no_leaked_threads"),
    # Lightning asks torch for what torch is to lose.
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    # Runs that go on write no checkpoints here.
    pytest.mark.filterwarnings(
        "ignore:Be aware that when using .ckpt_path:UserWarning"
    ),
]


class Unsized(IterableDataset):
    def __iter__(self):
        return iter(range(EXAMPLES))


def unsized(**kwargs):
    return EchoLoader(
        DataLoader(Unsized(), batch_size=5), **{"window": 20, "factor": 2, **kwargs}
    )


# ---- epochs and length


def test_epochs_are_those_of_a_plain_loop(tmp_path):
    model, trainer = fit(tmp_path, make_loader())
    assert trainer.num_training_batches == STEPS
    assert model.trained == expected(3)
    orders = [str(model.trained[n * STEPS : (n + 1) * STEPS]) for n in range(3)]
    assert len(set(orders)) == 3


def test_epochs_whose_lengths_differ(tmp_path):
    """A fractional factor in epochs shorter than a segment: docs/trainers.md."""
    loader = EchoLoader(range(4), batch_size=1, window=32, factor=1.25)
    model, _ = fit(tmp_path, loader, max_epochs=4, reload_dataloaders_every_n_epochs=1)
    uses = Counter(chain(*model.trained))
    assert uses == dict.fromkeys(range(4), 5), "5 times in every four epochs"


class Watched(Recorder):
    """Notes where batches lay before Lightning brought them to its device."""

    def on_before_batch_transfer(self, batch, dataloader_idx):
        self.place = {name: leaf.data_ptr() for name, leaf in batch.items()}
        return batch

    def training_step(self, batch, batch_idx):
        assert self.place == {name: leaf.data_ptr() for name, leaf in batch.items()}
        assert all(leaf.device == self.device for leaf in batch.values())
        return super().training_step(batch["id"], batch_idx)


def test_batches_on_the_right_device_are_not_copied(tmp_path):
    upstream = [{"id": number, "x": torch.ones(3)} for number in range(EXAMPLES)]
    loader = EchoLoader(upstream, batch_size=5, window=20, factor=2)
    model = Watched()
    make_trainer(tmp_path, max_epochs=2).fit(model, loader)
    assert len(model.trained) == 2 * STEPS


class Named(Recorder):
    """Notes batches whose names are those of their examples."""

    def training_step(self, batch, batch_idx):
        assert [*map(int, batch["name"])] == batch["id"].tolist()
        return super().training_step(batch["id"], batch_idx)


def test_objects_come_with_their_examples(tmp_path):
    upstream = [{"id": number, "name": str(number)} for number in range(EXAMPLES)]
    loader = EchoLoader(upstream, batch_size=5, window=20, factor=2)
    model = Named()
    make_trainer(tmp_path, max_epochs=2).fit(model, loader)
    assert len(model.trained) == 2 * STEPS


def test_a_length_that_is_not_known(tmp_path):
    loader = make_loader(factor="auto")
    model, trainer = fit(tmp_path, loader)
    assert trainer.num_training_batches == float("inf")
    drawn = {each for batch in model.trained for each in batch}
    assert drawn == set(range(EXAMPLES))
    assert trainer.current_epoch == 3


def test_with_auto_a_share_of_an_epoch_is_refused_and_a_number_of_batches_is_not(
    tmp_path,
):
    def fit_every(**kwargs):
        validation = make_loader(n=20, factor=1)
        loader = make_loader(factor="auto")
        return fit(tmp_path, loader, val=validation, max_epochs=2, **kwargs)[0]

    with pytest.raises(Exception, match=r"must be .*`1\.0` or an int") as caught:
        fit_every(val_check_interval=0.5)
    assert type(caught.value).__name__ == "MisconfigurationException"
    sanity = 2
    for kwargs in (
        {"val_check_interval": 4},
        {"val_check_interval": 6, "check_val_every_n_epoch": None},
        {"check_val_every_n_epoch": 2},
    ):
        model = fit_every(**kwargs)
        assert len(model.validated) - sanity >= 4  # a validation has four batches


def test_limited_epochs(tmp_path):
    model, trainer = fit(tmp_path, make_loader(), limit_train_batches=0.5)
    assert trainer.num_training_batches == STEPS // 2
    whole = expected(3)
    assert model.trained == [
        batch for n in range(3) for batch in whole[n * STEPS : n * STEPS + STEPS // 2]
    ]


def test_an_iterator_gives_its_one_epoch(tmp_path):
    loader = EchoLoader(iter(range(EXAMPLES)), batch_size=5, window=20, factor=2)
    model, _ = fit(tmp_path, loader, max_epochs=1)
    assert sorted(chain(*model.trained)) == sorted(2 * list(range(EXAMPLES)))


def test_validation_has_a_loader_of_its_own(tmp_path):
    validation = make_loader(n=20, factor=1)
    model, _ = fit(tmp_path, make_loader(), val=validation, val_check_interval=0.5)
    assert model.trained == expected(3)
    sanity, checked = model.validated[:2], model.validated[2:]
    assert sanity == expected(1, n=20, factor=1)[:2]
    for n in range(6):
        one = chain(*checked[4 * n : 4 * n + 4])
        assert sorted(one) == list(range(20))


def test_several_loaders(tmp_path):
    pair = CombinedLoader([make_loader(), make_loader(seed=1)], "min_size")
    model = Paired()
    make_trainer(tmp_path, max_epochs=2).fit(model, pair)
    assert [one for one, _ in model.pairs] == expected(2)
    assert [two for _, two in model.pairs] == expected(2, seed=1)


class Paired(Recorder):
    def __init__(self):
        super().__init__()
        self.pairs = []

    def training_step(self, batch, batch_idx):
        self.pairs.append([each.tolist() for each in batch])
        return self.layer(batch[0].float()[:, None]).mean()


class Module(LightningDataModule):
    """Makes a loader when Lightning asks for one."""

    def train_dataloader(self):
        return make_loader()


@pytest.mark.parametrize("every", [0, 1, 2])
def test_loaders_made_anew(tmp_path, every):
    model, _ = fit(tmp_path, Module(), reload_dataloaders_every_n_epochs=every)
    assert model.trained == expected(3)


# ---- checkpoints


def train_and_go_on(tmp_path, make, at, when=None, val=None, **kwargs):
    """Trains once, then from checkpoints: what was trained, and what the rests were."""
    kept = tmp_path / "kept"
    keep = checkpoints(kept, **(when or {"every_n_train_steps": 1}))
    model, _ = fit(tmp_path, make(), val=val and val(), callbacks=[keep], **kwargs)
    rests = {}
    for step in at:
        path = kept / f"step={step}.ckpt"
        again, _ = fit(tmp_path, make(), path, val and val(), **kwargs)
        rests[step] = again.trained
    return model.trained, rests


# In the first, a middle and the last epoch; at their ends; one batch before and after.
CUTS = [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS, 3 * STEPS - 3]


@pytest.mark.parametrize(
    ("make", "kwargs"),
    [
        (make_loader, {}),
        (lambda: make_loader(factor=1.6, prefetch=2, n=50), {}),
        (lambda: make_loader(factor=1, n=80), {}),
        (lambda: make_loader(overlap_epochs=True), {}),
        (lambda: make_loader(drop_last=True, n=43), {"limit_train_batches": STEPS}),
        (lambda: unsized(length=EXAMPLES), {}),
        (unsized, {"limit_train_batches": STEPS}),
        (unsized, {"limit_train_batches": STEPS - 6}),
        (make_loader, {"max_steps": 3 * STEPS - 2, "max_epochs": -1}),
    ],
)
@pytest.mark.filterwarnings("ignore:Your `IterableDataset` has `__len__` defined")
def test_a_run_goes_on_exactly(tmp_path, make, kwargs):
    cuts = [1, 9, 10, 11, 20, 27] if kwargs.get("limit_train_batches") == 10 else CUTS
    trained, rests = train_and_go_on(tmp_path, make, cuts, **kwargs)
    for step, rest in rests.items():
        assert rest == trained[step:], step


def test_a_run_that_validates_goes_on_exactly(tmp_path):
    trained, rests = train_and_go_on(
        tmp_path,
        make_loader,
        [3, 4, 8, STEPS, STEPS + 4],
        val=lambda: make_loader(n=20),
        val_check_interval=4,
    )
    for step, rest in rests.items():
        assert rest == trained[step:], step


def test_a_run_with_workers_goes_on_exactly(tmp_path):
    trained, rests = train_and_go_on(
        tmp_path, lambda: make_loader(workers=2), [9, STEPS + 1]
    )
    assert trained == expected(3)
    for step, rest in rests.items():
        assert rest == trained[step:], step


def test_checkpoints_at_the_end_of_epochs(tmp_path):
    trained, rests = train_and_go_on(
        tmp_path, make_loader, [STEPS, 2 * STEPS], {"every_n_epochs": 1}
    )
    for step, rest in rests.items():
        assert rest == trained[step:], step


def test_loaders_made_anew_go_on_exactly(tmp_path):
    trained, rests = train_and_go_on(
        tmp_path, Module, CUTS, reload_dataloaders_every_n_epochs=1
    )
    for step, rest in rests.items():
        assert rest == trained[step:], step


def test_a_length_that_is_not_known_is_one_batch_off(tmp_path):
    """Lightning fetches a batch ahead to see the end; docs/trainers.md says so."""
    trained, rests = train_and_go_on(tmp_path, unsized, [7])
    assert rests[7] == trained[8:]


# ---- the same loader twice


def test_one_loader_for_training_and_validation_is_an_error(tmp_path):
    loader = make_loader()
    with pytest.raises(echobuf.ClosedError, match="such as training and validation"):
        fit(tmp_path, loader, val=loader, val_check_interval=0.5)


def test_one_loader_twice_in_training_is_an_error(tmp_path):
    loader = make_loader()
    with pytest.raises(echobuf.ClosedError, match="a loader of its own for each loop"):
        make_trainer(tmp_path).fit(Paired(), CombinedLoader([loader, loader]))


# ---- several processes


def test_two_processes_with_shards_of_unequal_length(tmp_path):
    program = Path(__file__).with_name("lightning_ranks.py")
    torchrun.run(program, tmp_path, "lightning.pytorch")
    for rank in range(2):
        got = torchrun.result(tmp_path, rank)
        alone = expected(2, rank=rank, ranks=2, n=EXAMPLES + 8 * rank)
        steps = len(alone) // 2
        assert got["trained"] == alone[:8] + alone[steps : steps + 8]
        for step, rest in got["rests"].items():
            assert rest == got["trained"][int(step) :]
