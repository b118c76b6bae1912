"""Trains a small transformer with Hugging Face's Trainer, stops, and goes on.

pip install '.[transformers]'
"""

import random

from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from echobuf.transformers import EchoTrainer

PAD, LENGTH = 0, 16


def sentences(count: int, seed: int) -> list[dict]:
    """Sequences of numbers, labelled by the side that has the larger one."""
    choose, made = random.Random(seed), []
    for _ in range(count):
        tokens = choose.choices(range(1, 20), k=choose.randint(6, LENGTH))
        made.append({"input_ids": tokens, "labels": int(max(tokens) in tokens[:4])})
    return made


def collate(examples: list[dict]) -> dict:
    """Pads to one length, since the examples of several batches meet in one."""
    import torch

    ids = [e["input_ids"] + [PAD] * (LENGTH - len(e["input_ids"])) for e in examples]
    ids = torch.tensor(ids)
    labels = torch.tensor([example["labels"] for example in examples])
    return {"input_ids": ids, "attention_mask": ids.ne(PAD).long(), "labels": labels}


def make_trainer(folder: str, **more) -> EchoTrainer:
    config = BertConfig(
        vocab_size=20,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    args = TrainingArguments(
        folder,
        num_train_epochs=4,
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=16,
        save_steps=70,
        logging_steps=70,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )
    return EchoTrainer(
        BertForSequenceClassification(config),
        args,
        train_dataset=sentences(640, 0),
        eval_dataset=sentences(200, 1),
        data_collator=collate,
        echo={"window": 256, "factor": 2},  # 80 steps an epoch, in place of 40
    )


def main(folder: str = "checkpoints") -> float:
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step == 70

    stopped = make_trainer(folder)
    stopped.add_callback(Stop())
    stopped.train()
    trainer = make_trainer(folder)
    trainer.train(resume_from_checkpoint=True)
    loss = trainer.evaluate()["eval_loss"]
    rate = trainer.lr_scheduler.get_last_lr()[0]
    print(f"{trainer.state.global_step} steps, rate {rate}, loss {loss:.3f}")
    return loss


if __name__ == "__main__":
    main()
