"""A line about a wait for a server says the state that it is in."""

import threading

from serve_data import NAME, Numbers, ids_of

from echobuf import EchoLoader, serve
from progress_lines import progress_lines

N, HELD = 40, 21


def test_the_state_of_the_server():
    gate = threading.Event()

    def hold(number):
        if number == HELD:
            assert gate.wait(60)

    with (
        progress_lines() as lines,
        serve.Server(Numbers(N, hold), NAME, window=8, lag=4) as server,
    ):
        loader = EchoLoader(serve.attach(NAME), batch_size=4, window=8, factor=1)
        threads = threading.Thread(target=lambda: (lines.wait(), gate.set()))
        threads.start()
        ids = [number for batch in loader for number in ids_of(batch)]
        threads.join()
        assert sorted(ids) == list(range(N))
        assert f"the server {NAME!r} is in epoch 0, at " in lines.texts[0]
        assert f"{HELD} of 24 fresh examples are there" in lines.texts[0]
        loader.close()
    assert server is not None
