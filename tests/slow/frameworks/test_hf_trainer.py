"""Hugging Face's Trainer trains on echoed data, stops anywhere, and goes on exactly."""

import json
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import transformers
from torch.utils.data import DataLoader, default_collate
from transformers import BatchEncoding, TrainerCallback

import echobuf
import torchrun
from echobuf.transformers import EchoTrainer, EchoTrainerMixin
from on_hf_trainer import (
    BATCH,
    ECHO,
    EXAMPLES,
    STEPS,
    Numbers,
    Stream,
    make_trainer,
    train,
)

transformers.logging.set_verbosity_error()
pytestmark = pytest.mark.usefixtures("no_leaked_threads")


def uses(batches):
    return Counter(chain(*batches))


def rates(trainer):
    return [
        each["learning_rate"] for each in trainer.state.log_history if "loss" in each
    ]


# ---- epochs, steps, schedules


def test_each_example_is_used_as_often_as_the_factor_says(tmp_path):
    trainer = train(tmp_path)
    trained = trainer.model.trained
    assert len(trained) == trainer.state.global_step == 3 * STEPS
    orders = [trained[n * STEPS : (n + 1) * STEPS] for n in range(3)]
    for order in orders:
        assert uses(order) == dict.fromkeys(range(EXAMPLES), 2)
    assert len({str(order) for order in orders}) == 3
    assert trainer.state.epoch == 3


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({}, 3 * STEPS),
        ({"num_train_epochs": 1.5}, STEPS * 3 // 2),
        ({"max_steps": 21}, 21),
        ({"gradient_accumulation_steps": 3}, 3 * 6),
        ({"echo": {"factor": 1}}, 3 * STEPS // 2),
        ({"echo": {"unit": "batch", "window": 4}}, 3 * STEPS),
        ({"echo": {"factor": "auto"}, "max_steps": 30}, 30),
        ({"data": Stream(), "max_steps": 37}, 37),
        ({"data": Numbers(43), "dataloader_drop_last": True}, 3 * STEPS),
    ],
)
def test_the_schedule_ends_with_the_last_step(tmp_path, arguments, steps):
    trainer = train(tmp_path, **arguments)
    assert trainer.state.global_step == steps
    assert set(trainer.lr_scheduler.get_last_lr()) == {0}
    each = rates(trainer)
    assert len(each) == steps
    assert each == sorted(each, reverse=True)
    assert each[-1] > 0


def test_fractional_factors_have_epochs_of_one_length(tmp_path):
    echo = {"factor": 1.25, "window": 32}
    trainer = train(tmp_path, echo=echo, data=Numbers(4), num_train_epochs=8,
                    per_device_train_batch_size=1)  # fmt: skip
    assert trainer.state.global_step == 8 * 4
    assert set(trainer.lr_scheduler.get_last_lr()) == {0}
    for epoch in range(8):
        assert len(set(chain(*trainer.model.trained[4 * epoch : 4 * epoch + 4]))) >= 3


def test_the_same_steps_as_without_echoing(tmp_path):
    """Recipes for N steps keep N: docs/trainers.md."""
    plain = train(tmp_path, kind=transformers.Trainer)
    loader = make_trainer(tmp_path).get_train_dataloader()
    steps = echobuf.schedule_steps(loader, 3, fresh=True)
    assert steps == plain.state.global_step
    assert rates(train(tmp_path, max_steps=steps)) == rates(plain)


def test_evaluation_is_as_before(tmp_path):
    more = {"more": {"eval_dataset": Numbers(12)}, "eval_strategy": "epoch"}
    echoed = train(tmp_path, **more)
    plain = train(tmp_path, kind=transformers.Trainer, **more)
    assert echoed.model.validated == plain.model.validated
    assert len(echoed.model.validated) == 3 * 2


def test_a_trainer_of_ones_own(tmp_path):
    class Own(transformers.Trainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            return 2 * super().compute_loss(model, inputs, *args, **kwargs)

    class Echoing(EchoTrainerMixin, Own):
        pass

    more = {"echo": {"window": 20, "factor": 2}}
    trainer = train(tmp_path, kind=Echoing, more=more)
    assert uses(trainer.model.trained) == dict.fromkeys(range(EXAMPLES), 6)


# ---- batches


def collate(examples):
    data = transformers.default_data_collator(examples)
    return BatchEncoding(dict(data))


def test_collators_that_return_batch_encodings(tmp_path):
    trainer = train(tmp_path, more={"data_collator": collate})
    assert uses(trainer.model.trained) == dict.fromkeys(range(EXAMPLES), 6)


class Named(Numbers):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "name": str(index)}


def test_objects_come_with_their_examples(tmp_path):
    more = {"data_collator": default_collate}
    trainer = train(tmp_path, data=Named(), more=more, remove_unused_columns=False)
    assert uses(trainer.model.trained) == dict.fromkeys(range(EXAMPLES), 6)


def ragged(examples):
    longest = max(example["number"] for example in examples) + 1
    numbers = transformers.default_data_collator(examples)["number"]
    return {"number": numbers[:, None].expand(-1, longest)}


def test_batches_padded_to_their_longest_are_an_error(tmp_path):
    with pytest.raises(echobuf.EchobufError, match="shape"):
        train(tmp_path, more={"data_collator": ragged})


def test_workers_and_orders_by_length(tmp_path):
    class Texts(Numbers):
        def __getitem__(self, index):
            return {**super().__getitem__(index), "input_ids": [0] * (1 + index % 7)}

    def by_length(resume=None):
        return train(
            tmp_path,
            resume,
            data=Texts(),
            dataloader_num_workers=1,
            save_strategy="steps",
            save_steps=21,
            train_sampling_strategy="group_by_length",
        ).model.trained

    trained = by_length()
    assert uses(trained) == dict.fromkeys(range(EXAMPLES), 6)
    assert by_length(tmp_path / "checkpoint-21") == trained[21:]


# ---- checkpoints


class SaveAt(TrainerCallback):
    def __init__(self, steps):
        self.steps = steps

    def on_step_end(self, args, state, control, **more):
        control.should_save = state.global_step in self.steps


def train_and_go_on(tmp_path, at, accumulate=1, **arguments):
    """Trains once, then from checkpoints: equal batches, rates and epochs."""
    arguments["gradient_accumulation_steps"] = accumulate
    trainer = make_trainer(tmp_path, **arguments)
    trainer.add_callback(SaveAt(at))
    trainer.train()
    trained, had = trainer.model.trained, trainer.state.log_history
    for step in at:
        again = train(tmp_path, tmp_path / f"checkpoint-{step}", **arguments)
        rest = again.model.trained
        assert rest, step
        assert rest == trained[len(trained) - len(rest) :], step
        assert again.state.global_step == trainer.state.global_step
        assert rates(again) == rates(trainer)
        if "data" not in arguments:  # else Trainer knows no epochs
            epochs = [each["epoch"] for each in again.state.log_history]
            assert epochs == [each["epoch"] for each in had]
    return trained


CUTS = [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS, 3 * STEPS - 3]


@pytest.mark.parametrize(
    ("at", "arguments"),
    [
        (CUTS, {}),
        ([1, 7, 8, 9, 17], {"echo": {"factor": 1.25, "prefetch": 2, "window": 32}}),
        ([7, 16, 17], {"echo": {"unit": "batch", "window": 4}}),
        ([1, 5, 6, 7, 12], {"accumulate": 3}),
        ([7, 16, 20], {"max_steps": 37}),
        ([7, 15, 16, 17, 33], {"data": Stream(), "max_steps": 37}),
        ([7, 17], {"echo": {"overlap_epochs": True}}),
        ([7, 17], {"restore_callback_states_from_checkpoint": True}),
        ([7, 17], {"data_seed": 5, "dataloader_num_workers": 1}),
    ],
)
def test_a_run_goes_on_exactly(tmp_path, at, arguments):
    train_and_go_on(tmp_path, at, **arguments)


def test_nothing_is_trained_twice_or_left_out(tmp_path):
    trained = train_and_go_on(tmp_path, [9])
    assert uses(trained[:STEPS]) == dict.fromkeys(range(EXAMPLES), 2)


def test_checkpoints_at_the_end_of_epochs(tmp_path):
    trainer = train(tmp_path, save_strategy="epoch")
    for epoch in (1, 2):
        step = STEPS * epoch
        again = train(tmp_path, tmp_path / f"checkpoint-{step}")
        assert again.model.trained == trainer.model.trained[step:]


def test_the_state_is_in_the_checkpoint(tmp_path):
    train(tmp_path, save_strategy="steps", save_steps=9)
    kept = json.loads((tmp_path / "checkpoint-9" / "trainer_state.json").read_text())
    assert "fresh_offset" in str(kept["stateful_callbacks"])


def test_a_checkpoint_of_a_plain_trainer_is_refused(tmp_path):
    train(tmp_path, kind=transformers.Trainer, save_strategy="epoch")
    with pytest.raises(echobuf.StateError, match="`resume_from_checkpoint`"):
        train(tmp_path, tmp_path / f"checkpoint-{STEPS // 2}")


def test_another_trainer_still_skips_batches(tmp_path):
    plain = {"kind": transformers.Trainer, "save_strategy": "steps", "save_steps": 3}
    trained = train(tmp_path, **plain).model.trained
    again = train(tmp_path, tmp_path / "checkpoint-3", **plain)
    assert again.model.trained == trained[3:]


# ---- what it refuses


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"echo": {"batch_size": 3}}, "`echo` has 'batch_size'"),
        ({"echo": {"num_workers": 2}}, "`echo` has 'num_workers', which follows from"),
        ({"echo": {"windo": 20}}, "`echo` has 'windo'.* it may have window, factor"),
        ({"echo": {3: 4}}, "`echo` has 3, which is no argument"),
        ({"echo": {"window": 1}}, "`window`"),
        ({"ignore_data_skip": True}, "`ignore_data_skip` is True"),
    ],
)
def test_wrong_options(tmp_path, arguments, message):
    with pytest.raises(echobuf.OptionError, match=message):
        train(tmp_path, **arguments)


def test_echo_must_be_a_mapping(tmp_path):
    args = make_trainer(tmp_path).args
    with pytest.raises(echobuf.OptionError, match="`echo` is 2"):
        EchoTrainer(make_trainer(tmp_path).model, args, echo=2)


def test_names_are_checked_before_anything_is_loaded(tmp_path):
    with pytest.raises(echobuf.OptionError, match="`echo` has 'windo'"):
        make_trainer(tmp_path, echo={"windo": 20})


def test_infos_of_batches_are_refused(tmp_path):
    with pytest.raises(echobuf.OptionError, match="`echo` has 'with_info'"):
        make_trainer(tmp_path, echo={"window": 20, "with_info": True})


class OwnLoader:
    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=BATCH)


def test_a_data_loader_that_replaces_the_loader_is_warned_of(tmp_path):
    class Replacing(OwnLoader, EchoTrainer):
        pass

    class Echoing(EchoTrainerMixin, OwnLoader, transformers.Trainer):
        pass

    more = {"echo": ECHO}
    with pytest.warns(UserWarning, match="`get_train_dataloader` gives a DataLoader"):
        plain = train(tmp_path, kind=Replacing, more=more)
    assert uses(plain.model.trained) == dict.fromkeys(range(EXAMPLES), 3)
    echoed = train(tmp_path, kind=Echoing, more=more)
    assert uses(echoed.model.trained) == dict.fromkeys(range(EXAMPLES), 6)


@pytest.mark.parametrize("more", [{"echo": {"factor": "auto"}}, {"data": Stream()}])
def test_an_unknown_length_needs_max_steps(tmp_path, more):
    with pytest.raises(ValueError, match="max_steps"):
        train(tmp_path, **more)


# ---- several processes


def test_two_processes(tmp_path):
    program = Path(__file__).with_name("hf_trainer_ranks.py")
    torchrun.run(program, tmp_path, "echobuf.transformers")
    for kind in ("even", "split"):
        both = [torchrun.result(tmp_path, rank)[kind] for rank in range(2)]
        trained = [*both[0]["trained"], *both[1]["trained"]]
        counts = uses(trained)
        assert set(counts) == set(range(EXAMPLES + 2))
        assert all(count >= 2 * 2 for count in counts.values())
        for each in both:
            assert {len(batch) for batch in each["trained"]} == {each["size"]}
            assert each["rest"] == each["trained"][5:]
            assert each["rate"] == 0
    assert BATCH == 5
