"""A web server for the files of one folder, with a bandwidth limit.

It runs as a separate process, started by its file name, and needs the standard library
only. Its standard input controls it: a line with a number sets the bandwidth in bytes a
second, and is answered by a line; the end of the input ends the server. So the server
never outlives the demo.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_BURST_S = 0.01  # how much unused time the bucket keeps
_FOUND = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n"
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class TokenBucket:
    """A limit on bytes a second, shared by all connections.

    Calls are served in their order: the bytes of a call begin when the bytes of the
    call before have ended, so that the sum is limited for any number of connections.

    Args:
        rate: bytes a second; infinity for no limit.
        burst_s: seconds of unused bandwidth that may be caught up on.
        clock: returns the time in seconds; replaced in tests.
        sleep: waits for some seconds; replaced in tests.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst_s: float = _BURST_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst_s = burst_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()  # when all bytes taken so far will have been sent

    def set_rate(self, rate: float) -> None:
        """Change the limit for later calls of `take`."""
        with self._lock:
            self._rate = rate

    def take(self, count: int) -> None:
        """Wait for the time of `count` more bytes."""
        with self._lock:
            now = self._clock()
            begin = max(self._free_at, now - self._burst_s)
            self._free_at = begin + count / self._rate
            wait_s = self._free_at - now
        if wait_s > 0:
            self._sleep(wait_s)


class FileServer(ThreadingHTTPServer):
    """HTTP server of files in memory, on a free port of the loopback interface.

    `files` is path in the address, such as `"/0001-7.png"`, to content.
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], bucket: TokenBucket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.responses = {
            path: _FOUND.format(len(content)).encode() + content
            for path, content in files.items()
        }

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections, with which every run ends."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    disable_nagle_algorithm = True
    server: FileServer

    def do_GET(self) -> None:
        """Send one file, headers included, when the bandwidth allows it."""
        response = self.server.responses.get(self.path, _MISSING)
        self.server.bucket.take(len(response))
        self.wfile.write(response)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the demo."""


def main(folder: str) -> None:
    """Serve a folder until the standard input ends; prints the port first."""
    files = {f"/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}
    bucket = TokenBucket(float("inf"))
    with FileServer(files, bucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            print(server.server_address[1], flush=True)
            for line in sys.stdin:
                bucket.set_rate(float(line))
                print("ok", flush=True)
        except BrokenPipeError:  # the demo has gone while it was being answered
            os._exit(0)  # an ordinary exit would try to write once more


if __name__ == "__main__":
    main(sys.argv[1])
