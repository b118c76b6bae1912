"""A signal handler that uses the buffer whose draw it interrupts."""

import pytest

from programs import run

PROGRAM = """
import signal
import numpy as np
import echobuf

ROWS = 20_000_000  # a draw of so many takes longer than a draw goes on without a look
buffer = echobuf.EchoBuffer(
    echobuf.Field((), np.uint8), window=ROWS, batch_size=ROWS, factor=1
)
put = np.arange(ROWS, dtype=np.uint8)
answers = []

def handler(*_):
    try:
        {call}
        answers.append("done")
    except RuntimeError as error:
        answers.append(str(error))

signal.signal(signal.SIGALRM, handler)
for turn in range(100):
    buffer.put_batch(put)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        batch = buffer.next_batch(timeout=20)
    except TimeoutError:
        batch = None  # the handler ran before the draw, and emptied the buffer
    signal.setitimer(signal.ITIMER_REAL, 0)
    buffer.reset()
    if "signal handler" in answers[-1]:
        break
assert (np.bincount(batch, minlength=256) == np.bincount(put, minlength=256)).all()
print(answers[-1].split(" that")[0])
"""


@pytest.mark.parametrize("call", ["buffer.reset()", "buffer.next_batch(timeout=20)"])
def test_a_call_that_would_wait_for_its_own_draw_is_an_error(call):
    assert run(PROGRAM.format(call=call)) == "called from a signal handler\n"
