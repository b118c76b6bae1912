"""Trains a small Equinox model on handwritten digits, each used up to eight times.

pip install '.[jax]' equinox scikit-learn
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from echobuf.jax import EchoLoader

EPOCHS = 4


class SlowDigits:
    """An upstream that takes half a millisecond an example."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self):
        for number in np.random.default_rng().permutation(len(self)):
            time.sleep(0.0005)
            yield {"image": self.images[number], "label": self.labels[number]}


@eqx.filter_jit(donate="all-except-first")
def step(batch, model):
    @eqx.filter_value_and_grad
    def loss(model):
        scores = jax.nn.log_softmax(jax.vmap(model)(batch["image"]))
        return -jnp.take_along_axis(scores, batch["label"][:, None], 1).mean()

    value, grads = loss(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value


def main() -> float:
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    model = eqx.nn.MLP(64, 10, 64, 1, key=jax.random.key(0))
    loader = EchoLoader(
        SlowDigits(images[:1400], labels[:1400]), batch_size=32, window=512
    )
    for epoch in range(EPOCHS):
        for batch in loader:  # jax.Arrays; nothing waits for the steps
            model, loss = step(batch, model)
        stats = loader.stats()
        scores = jax.vmap(model)(images[1400:])
        accuracy = float((scores.argmax(1) == labels[1400:]).mean())
        print(
            f"epoch {epoch}: loss {loss:.3f}, test accuracy {accuracy:.3f}, "
            f"each example used {stats.effective_factor:.1f} times"
        )
    return accuracy


if __name__ == "__main__":
    main()
