"""`Prometheus`: what a server scrapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from echobuf.errors import OptionError
from echobuf.metrics.sink import require

_COUNTED = ("fresh", "served", "passes", "put_wait_s", "next_wait_s")


class Prometheus:
    """Offers the last values written to whoever scrapes them.

    Names say the unit: `echobuf_t_upstream_seconds`, `echobuf_bytes_host`. What only
    grows within an epoch is a counter (`echobuf_fresh_total`,
    `echobuf_next_wait_seconds_total`), which begins anew with each epoch, as Prometheus
    expects of a counter; all else is a gauge.

    Args:
        port: where to serve `/metrics`, on a thread of prometheus_client's; 0 takes a
            free one. Left out: nothing is served, and the metrics are added to
            `registry`.
        registry: of prometheus_client; its global one unless told, and one of its own
            with a port.
        address: to serve at; "0.0.0.0" lets other machines in.

    Attributes:
        port: the one that is served at, or None.

    Raises:
        OptionError: the port cannot be served at.
        MissingPackageError: prometheus_client is not installed.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        registry: Any = None,
        address: str = "127.0.0.1",
    ) -> None:
        client = require("prometheus_client", "prometheus-client", "Prometheus()")
        core = require("prometheus_client.core", "prometheus-client", "Prometheus()")
        self._counter = core.CounterMetricFamily
        self._gauge = core.GaugeMetricFamily
        self._metrics: dict[str, float] = {}
        self.port: int | None = None
        self._server: Any = None
        if registry is None:
            registry = client.REGISTRY if port is None else client.CollectorRegistry()
        if port is not None:
            try:
                self._server, _ = client.start_http_server(port, address, registry)
            except (OSError, OverflowError, TypeError) as error:
                raise OptionError(
                    f"`port` is {port!r}, which cannot be served at ({error}); take "
                    "another, or 0 for any that is free."
                ) from error
            self.port = self._server.server_port
        self._registry = registry
        registry.register(self)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keeps them until the next write."""
        # Another mapping each time: a scrape on another thread goes through the old.
        self._metrics = {**self._metrics, **metrics}

    def collect(self) -> Iterator[Any]:
        """What prometheus_client calls for a scrape."""
        for name, value in self._metrics.items():
            field = name.rpartition("/")[2]
            said = re.sub(r"_s$", "_seconds", re.sub(r"[^a-zA-Z0-9_:]", "_", name))
            family = self._counter if field in _COUNTED else self._gauge
            yield family(said, f"`{field}` of echobuf's stats()", value=value)

    def close(self) -> None:
        """Takes the metrics away, and serves no more."""
        server, self._server, self.port = self._server, None, None
        if server is not None:
            server.shutdown()
            server.server_close()
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)
