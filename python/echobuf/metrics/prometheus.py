"""`Prometheus`: a sink that a Prometheus server scrapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from echobuf.errors import OptionError
from echobuf.metrics.monitor import require

_COUNTED = ("fresh", "served", "passes", "put_wait_s", "next_wait_s")


class Prometheus:
    """Sink that offers the last metrics written to a Prometheus server.

    Names include the unit: `echobuf_t_upstream_seconds`, `echobuf_bytes_host`. Values
    that only grow within an epoch are counters (`echobuf_fresh_total`,
    `echobuf_next_wait_seconds_total`), which start from zero with each epoch, as
    Prometheus allows for counters; all others are gauges.

    Args:
        port: port for `/metrics`, served on a thread of prometheus_client; 0 takes a
            free one. By default nothing is served, and the metrics are added to
            `registry`.
        registry: a registry of prometheus_client; by default its global one, or a new
            one with a port.
        address: address to serve at; "0.0.0.0" admits other machines.

    Attributes:
        port: the port served at, or None.

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
        """Keep the metrics until the next write."""
        # Another mapping each time: a scrape on another thread goes through the old.
        self._metrics = {**self._metrics, **metrics}

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, for a scrape by prometheus_client."""
        for name, value in self._metrics.items():
            field = name.rpartition("/")[2]
            said = re.sub(r"_s$", "_seconds", re.sub(r"[^a-zA-Z0-9_:]", "_", name))
            family = self._counter if field in _COUNTED else self._gauge
            yield family(said, f"`{field}` of echobuf's stats()", value=value)

    def close(self) -> None:
        """Remove the metrics from the registry, and stop serving."""
        server, self._server, self.port = self._server, None, None
        if server is not None:
            server.shutdown()
            server.server_close()
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)
