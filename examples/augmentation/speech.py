"""Speech: SpecAugment on log-mel spectrograms [1, mels, time], as of torchaudio.

D. S. Park et al. (arXiv:1904.08779), policy LD but its time warp.
Spectrograms are stored in 16 bits.
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(frames: int = 800) -> dict[str, Any]:
    return {
        "mel": [
            T.RandomWindow(frames, axis=-1),
            T.ToDtype(np.float32),
            T.Normalize(mean=-4.27, std=4.57),
            T.SpecMask(
                freq_mask_param=27,
                time_mask_param=100,
                num_freq_masks=2,
                num_time_masks=2,
            ),
        ]
    }


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {"mel": Field((1, 80, 1000), np.float16), "label": Field((), np.int64)}
    mels = rng.normal(-4.27, 4.57, (16, 1, 80, 1000)).astype(np.float16)
    labels = rng.integers(0, 35, 16)
    options = {"batch_size": 4, "window": 16, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"mel": mels, "label": labels})
        buffer.close()
        for batch in buffer:
            print(batch["mel"].shape, f"{(batch['mel'] == 0).mean():.0%} masked")


if __name__ == "__main__":
    main()
