"""Draws images that get darker towards their corners: an operation of one's own."""

from pathlib import Path

import numpy as np

import echobuf
from echobuf.transforms import Custom, RandomHorizontalFlip, ToDtype

HEADER = Path(__file__).with_name("vignette.hpp")


def main() -> None:
    vignette = Custom(HEADER, "Vignette", {"least": 0.2, "most": 0.8})
    spec = echobuf.Field((64, 64, 3), np.uint8)
    chain = [RandomHorizontalFlip(), vignette, ToDtype(np.float32, scale=True)]
    with echobuf.EchoBuffer(
        spec, batch_size=8, window=8, factor=2, transform=chain
    ) as buffer:
        print(buffer)
        buffer.put_batch(np.full((8, 64, 64, 3), 200, np.uint8))
        buffer.close()
        for batch in buffer:
            middle, corner = batch[:, 32, 32, 0], batch[:, 0, 0, 0]
            print(f"middle {middle.mean():.2f}, corners {corner.round(2)}")


if __name__ == "__main__":
    main()
