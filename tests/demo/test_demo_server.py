"""The server of the demo, and its limit on bandwidth."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

import math
import threading
import time
from http.client import HTTPConnection

import pytest

from demo_parts import Time, require_demo

require_demo()


from echobuf.cli.demo.server import TokenBucket
from echobuf.cli.demo.upstream import ServerProcess

# The token bucket, with a clock of its own.


def bucket(rate, *, burst_s=0.0):
    clock = Time()
    return TokenBucket(rate, burst_s=burst_s, clock=clock, sleep=clock.sleep), clock


def test_bucket_gives_bytes_at_its_rate():
    limit, clock = bucket(1000)
    for _ in range(50):
        limit.take(20)
    assert clock.now - 100 == pytest.approx(1.0)


def test_bucket_keeps_no_more_than_the_burst():
    limit, clock = bucket(1000, burst_s=0.1)
    clock.now += 50.0  # unused time
    limit.take(100)
    assert clock.now == 150.0
    limit.take(300)
    assert clock.now == pytest.approx(150.3)


def test_bucket_catches_up_on_late_takers():
    limit, clock = bucket(1000, burst_s=0.1)
    clock.now += 0.1
    begin = clock.now
    for _ in range(100):
        limit.take(100)
        clock.now += 0.05  # busy elsewhere, for less than the bytes take
    assert clock.now - begin == pytest.approx(10.0, abs=0.1)


def test_bucket_queues_takers_who_come_at_once():
    waits = []
    limit = TokenBucket(1000, burst_s=0.0, clock=lambda: 0.0, sleep=waits.append)
    for _ in range(4):  # four connections: each waits for those before it
        limit.take(500)
    assert waits == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_bucket_changes_its_rate():
    limit, clock = bucket(math.inf)
    limit.take(10**9)
    assert clock.now == 100.0
    limit.set_rate(10)
    limit.take(20)
    assert clock.now == pytest.approx(102.0)


# The server.


def get(connection, path):
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def connect(server):
    return HTTPConnection("127.0.0.1", server.port, timeout=30)


def test_server_serves_the_files_and_nothing_else(server, folder, digits):
    connection = connect(server)
    for name in digits.train[:5]:
        assert get(connection, f"/{name}") == (200, (folder / name).read_bytes())
    for path in ("/", "/none.png", "/../server.py", f"/{folder}"):
        assert get(connection, path) == (404, b"")
    connection.close()


def test_server_shares_its_bandwidth_over_connections(server, folder, digits):
    rate, each = 20_000, 40
    names = digits.train[:each]
    least = 4 * sum(len((folder / name).read_bytes()) for name in names)

    def fetch_all():
        connection = connect(server)
        for name in names:
            get(connection, f"/{name}")
        connection.close()

    threads = [threading.Thread(target=fetch_all) for _ in range(4)]
    server.set_bandwidth(rate)
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    server.set_bandwidth(math.inf)
    # It can be later on a busy machine; sooner than the limit allows, never.
    assert took > 0.95 * least / rate


def test_server_ends_with_its_owner(folder, digits):
    with ServerProcess(folder) as process:
        connection = connect(process)
        assert get(connection, f"/{digits.train[0]}")[0] == 200
        connection.close()
    assert process.exit_code == 0
    process.close()  # twice is fine
    with pytest.raises(ConnectionError):
        connect(process).connect()


def test_server_that_cannot_start_is_an_error(tmp_path, capfd):
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        ServerProcess(tmp_path / "missing")
    assert "missing" in capfd.readouterr().err
