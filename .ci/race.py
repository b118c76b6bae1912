"""Writes into an example while it is put: a race of the caller's, none of echobuf's.

`.ci/free_threaded` runs it to see that ThreadSanitizer sees interpreter and core.
"""

import threading

import numpy as np

import echobuf

BYTES, EXAMPLES = 1 << 20, 8


def main() -> None:
    """Put a bytearray from one thread, and write into it from another."""
    example = bytearray(BYTES)
    buffer = echobuf.EchoBuffer(
        echobuf.Field((BYTES,), np.uint8), batch_size=1, window=EXAMPLES, factor=1
    )
    start = threading.Barrier(2)

    def put() -> None:
        start.wait()
        for _ in range(EXAMPLES):
            buffer.put(example)

    def write() -> None:
        start.wait()
        for i in range(BYTES // 4):
            example[i] = 1

    threads = [threading.Thread(target=work) for work in (put, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
