"""Messages of strangers on the socket, or none: bounded waits, clear errors."""

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest
from serve_data import NAME, Numbers

from echobuf import CapacityError, OptionError, serve
from echobuf.serve import address, client, protocol, server_loop
from echobuf.serve.server_loop import Adoption
from helpers import until

VERSION = protocol.VERSION


@pytest.fixture
def server():
    with serve.Server(Numbers(100), NAME, window=8) as server:
        yield server


@pytest.fixture
def hasty(monkeypatch):
    """Both ends wait for half a second."""
    monkeypatch.setattr(client, "_SILENT_S", 0.5)
    monkeypatch.setattr(server_loop, "_REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(server_loop, "_WAIT_MESSAGE_S", 0.05)


def connected(name=NAME):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    folder = os.open(address.folder(), os.O_PATH)
    try:
        client.connect(f"/proc/self/fd/{folder}/{name}.sock")
    finally:
        os.close(folder)
    return client


def answering():
    """Threads of the server for peers."""
    return [each for each in threading.enumerate() if each.name == "echobuf-serve-job"]


def framed(text):
    return struct.pack(">I", len(text)) + text


@contextlib.contextmanager
def no_file_left():
    """Nothing more can be opened in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)  # the lowest that is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        framed(b"[]"),
        framed(b"{"),
        framed(b"\xff\xfe"),
        framed(b"[" * 100_000),
        framed(b"{}"),
        framed(b'{"version": 3}'),
        *(
            framed(json.dumps({"version": VERSION, **message}).encode())
            for message in (
                {},
                {"what": 3},
                {"what": "attach"},
                {"what": "resume"},
                {"what": "resume", "seat": [], "session": "", "spec": 3},
                {"what": "resume", "seat": [2**70, "x"], "session": None},
            )
        ),
    ],
)
def test_malformed_messages_do_not_stop_the_server(server, words):
    with connected() as client:
        client.sendall(words)
        answer, _ = protocol.receive(client, 20)  # it answers, or closes
        if answer is not None:
            assert isinstance(answer["error"], str)
    until(lambda: not answering())
    serve.attach(NAME).close()


@pytest.mark.parametrize("words", [b"", b"\0", framed(b"{}")[:5]])
def test_peers_that_stop_in_the_middle(server, hasty, words):
    peers = [connected() for _ in range(64)]
    for peer in peers:
        peer.sendall(words)
    serve.attach(NAME, timeout=20).close()
    for peer in peers:
        assert peer.recv(1) == b""  # they are let go
        peer.close()
    until(lambda: not answering())


def test_a_server_out_of_descriptors_goes_on_later(server):
    with connected() as blocker:  # its thread has it
        until(answering)
        with socket.socket(socket.AF_UNIX) as client:
            path = address.folder() / f"{NAME}.sock"
            with address.short_path(path) as short, no_file_left():
                client.connect(short)
                client.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    client.recv(1)
            client.settimeout(20)
            protocol.send(client, {"version": VERSION, "what": "status"})
            answer, _ = protocol.receive(client, 20)
            assert answer["name"] == NAME
        blocker.sendall(b"x")
    assert serve.status(NAME).jobs == ()


def test_a_job_out_of_descriptors(server):
    with no_file_left():
        for call in (serve.attach, serve.status):
            with pytest.raises(CapacityError, match="ulimit -n"):
                call(NAME)
    ends = socket.socketpair()
    with ends[0], ends[1], open("/dev/null") as file:
        protocol.send(ends[0], {}, (file.fileno(), file.fileno()))
        with no_file_left(), pytest.raises(CapacityError, match="ulimit -n"):
            protocol.receive(ends[1], 20)
    serve.attach(NAME).close()


def test_a_server_out_of_threads_goes_on_later(server, monkeypatch):
    start = threading.Thread.start

    def refused(thread):
        if thread.name == "echobuf-serve-job":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(OptionError, match="no thread"):
            serve.attach(NAME)
    serve.attach(NAME).close()


PROGRAM = """
import sys
sys.path.append({here!r})
from echobuf import serve
from serve_data import NAME, Numbers
with serve.Server(Numbers(10), NAME, window=8):
    sys.stdin.readline()
"""


def test_a_server_that_is_stopped(hasty):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(here=os.path.dirname(__file__))],
        stdin=subprocess.PIPE,
        text=True,
    )
    serve.attach(NAME, timeout=60).close()
    os.kill(program.pid, signal.SIGSTOP)
    try:
        for call in (serve.attach, serve.status):
            with pytest.raises(OptionError, match=rf"{program.pid}.*does not answer"):
                call(NAME)
        waiting = []
        with contextlib.suppress(BlockingIOError):
            while len(waiting) < 200:  # as many as it would hear later
                waiting.append(address.connect(NAME, 1.0))
        with pytest.raises(OptionError, match="does not answer"):
            serve.attach(NAME)
        for each in waiting:
            each.close()
    finally:
        os.kill(program.pid, signal.SIGCONT)
    serve.attach(NAME, timeout=60).close()
    program.communicate("\n", timeout=60)


def test_a_server_that_begins_says_so(hasty):
    go_on, made = threading.Event(), []
    upstream = Numbers(100, lambda _: go_on.wait(60))
    making = threading.Thread(
        target=lambda: made.append(serve.Server(upstream, NAME, window=8))
    )
    making.start()
    until((address.folder() / f"{NAME}.sock").exists)
    with pytest.raises(OptionError, match="just begun"):
        serve.status(NAME)
    attached = []
    coming = threading.Thread(target=lambda: attached.append(serve.attach(NAME)))
    coming.start()
    coming.join(1.5)  # longer than a server may be silent
    assert coming.is_alive()
    go_on.set()
    coming.join(60)
    making.join(60)
    attached.pop().close()
    made.pop().close()


ATTACHED = {
    "seat": [0, 1],
    "lease_s": 1.0,
    "example": "",
    "spec": "",
    "length": None,
    "window": 3,
    "spilled": False,
}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (framed(b"[]"), "no server of echobuf's"),
        (framed(b"{"), "no server of echobuf's"),
        (b"HTTP/1.1 400 Bad Request\r\n", "no server of echobuf's"),
        (framed(b"{}"), "no server of echobuf's"),
        (framed(json.dumps(ATTACHED).encode()), "no server of echobuf's"),
        (framed(b'{"error": 3}'), "3"),
        (framed(b'{"error": "go away"}'), "go away"),
        (b"\0\0", "no such server"),  # it was killed
        (b"", "no such server"),
    ],
)
def test_malformed_answers_are_an_error(hasty, answer, reason):
    def reply():
        for _ in range(2):
            connection, _ = odd.accept()
            with connection:
                protocol.receive(connection, 20)
                connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(address.folder() / f"{NAME}.sock"))
        odd.listen()
        thread = threading.Thread(target=reply)
        thread.start()
        for call in (serve.attach, serve.status):
            with pytest.raises(OptionError, match=reason):
                call(NAME)
        thread.join(60)


def test_descriptors_that_are_not_what_a_server_shares(hasty):
    def reply():
        connection, _ = odd.accept()
        with connection, open("/dev/null") as file:
            protocol.receive(connection, 20)
            protocol.send(connection, ATTACHED, (file.fileno(), file.fileno()))
            with contextlib.suppress(OSError):  # it goes, with words unread
                connection.recv(1)

    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(address.folder() / f"{NAME}.sock"))
        odd.listen()
        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(CapacityError, match="cannot be opened here"):
            serve.attach(NAME)
        thread.join(60)


def test_a_closed_peer_is_recognised():
    for left in (b"", b"unread"):  # by the one that goes: its end is reset
        here, there = socket.socketpair()
        with here, there:
            assert not server_loop.has_gone(here)
            there.sendall(b"x")
            assert not server_loop.has_gone(here)
            assert here.recv(1) == b"x"
            here.sendall(left)
            there.close()
            assert server_loop.has_gone(here) is True


def test_a_ring_that_comes_back_and_no_descriptor_is_left(monkeypatch):
    def none_left(file):
        raise OSError(errno.EMFILE, "too many open files")

    waiting = Adoption("session")
    monkeypatch.setattr(os, "dup", none_left)
    with pytest.raises(CapacityError, match="descriptor"):
        waiting.offer({"session": "session", "spec": "{}"}, [0, 1])
    assert waiting.adopted is None
    assert not waiting.wait(0)


def test_a_peer_that_has_all_of_a_message_may_go(monkeypatch):
    here, there = socket.socketpair()
    send = socket.send_fds

    def send_and_go(*arguments):
        sent = send(*arguments)
        there.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_go)
    with here, open(os.devnull) as file:
        protocol.send(here, {"what": "all"}, (file.fileno(),))
