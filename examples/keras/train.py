"""Trains on handwritten digits with Keras 3, is interrupted, and goes on.

pip install '.[keras,torch]' scikit-learn
KERAS_BACKEND=torch python train.py, or KERAS_BACKEND=jax
"""

import keras
import numpy as np
from sklearn.datasets import load_digits

import echobuf
import echobuf.keras

EPOCHS = 3
digits = load_digits()
images = (digits.data / 16).astype(np.float32)


def make_loader() -> echobuf.EchoLoader:
    if keras.backend.backend() == "torch":
        from echobuf.torch import EchoLoader
    else:
        from echobuf.jax import EchoLoader
    rows = list(zip(images[:1400], digits.target[:1400].astype(np.int32), strict=True))
    return EchoLoader(rows, batch_size=32, window=512, factor=4)


class Stop(keras.callbacks.Callback):
    """Interrupts training in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == 250:  # an epoch has 175
            raise KeyboardInterrupt


def fit(folder: str, *callbacks) -> keras.Model:
    data = echobuf.keras.EchoDataset(loader := make_loader())
    steps = echobuf.schedule_steps(loader, EPOCHS)
    hidden = keras.layers.Dense(64, activation="relu")
    model = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10)])
    rate = keras.optimizers.schedules.CosineDecay(4e-3, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    backup = echobuf.keras.BackupAndRestore(data, folder, save_freq=50)
    model.fit(data, epochs=EPOCHS, callbacks=[backup, *callbacks], verbose=0)
    return model


def main(folder: str = "backup") -> float:
    try:
        fit(folder, Stop())
    except KeyboardInterrupt:
        model = fit(folder)
    _, accuracy = model.evaluate(images[1400:], digits.target[1400:], verbose=0)
    steps = int(model.optimizer.iterations)
    print(f"{steps} steps, test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
