"""Use an installed wheel: a buffer, a loader with a chain, and an error."""

import numpy as np

import echobuf
from echobuf import EchoBuffer, EchoLoader, Field
from echobuf import transforms as T  # noqa: N812

spec = {"image": Field((32, 32, 3), np.uint8), "label": Field((), np.int64)}
examples = [(np.full((32, 32, 3), i, np.uint8), i) for i in range(64)]
with EchoBuffer(spec, batch_size=16, window=64, factor=3) as buffer:
    for image, label in examples:
        buffer.put({"image": image, "label": label})
    buffer.close()
    drawn = np.concatenate([batch["label"] for batch in buffer])
assert np.bincount(drawn).tolist() == [3] * 64, drawn

chain = [T.RandomCrop(24), T.RandomHorizontalFlip(), T.ToDtype(np.float32, scale=True)]
options = {"batch_size": 16, "window": 64, "factor": 2, "transform": {0: chain}}
with EchoLoader(examples, **options) as loader:
    for images, labels in loader:
        assert images.shape[0] == 16
        assert images.dtype == np.float32
        assert images.size == 16 * 3 * 24 * 24
        expected = labels[:, None].astype(np.float32) / 255
        assert np.allclose(images.reshape(16, -1), expected, atol=1e-6)
try:
    EchoBuffer(spec, batch_size=0, window=64, factor=3)
except echobuf.OptionError as error:
    print("an error as it should be:", error)
else:
    raise AssertionError("no OptionError")
print("the script ran from", echobuf.__file__)
