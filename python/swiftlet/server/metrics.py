"""Counters for Prometheus."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from swiftlet.records import Completion

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_COUNTERS = {
    "hits": "Experts that were in memory when asked for",
    "misses": "Experts that had to be fetched",
    "reads": "Reads of experts from disk",
    "bytes_read": "Bytes of experts read from disk",
    "host_hits": "Experts that were fetched from host memory",
    "host_bytes": "Bytes of experts copied from host memory",
    "evictions": "Experts that had to leave memory",
}
_GAUGES = {
    "pool_bytes": "Bytes of experts in memory",
    "host_memory": "Bytes of host memory for experts beside a card's",
    "pool_budget": "Bytes that experts may take",
    "resident_set_bytes": "Memory of the process",
    "peak_resident_set_bytes": "The most memory that the process had",
}


class Metrics:
    """What the server counts. Names begin with swiftlet_."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.requests = Counter("swiftlet_requests", "Requests", ("path", "status"), registry=registry)
        self.seconds = Histogram(
            "swiftlet_request_seconds", "Time of a request", ("path",), buckets=_SECONDS, registry=registry
        )
        self.left = Counter("swiftlet_left", "Answers whose client went away", registry=registry)
        self._prompt = Counter("swiftlet_prompt_tokens", "Tokens of prompts", registry=registry)
        self._cached = Counter("swiftlet_cached_tokens", "Tokens of prompts that were not prefilled", registry=registry)
        self._answer = Counter("swiftlet_completion_tokens", "Tokens of answers", registry=registry)
        self._prefill = Counter("swiftlet_prefill_seconds", "Time of prefills", registry=registry)
        self._decode = Counter("swiftlet_decode_seconds", "Time of decoding", registry=registry)
        self._waiting = Gauge("swiftlet_waiting", "Requests that wait for their turn", registry=registry)
        self._running = Gauge("swiftlet_running", "Answers that are being made", registry=registry)

    def watch(
        self, stats: Callable[[], dict[str, Any]], waiting: Callable[[], int], running: Callable[[], int]
    ) -> None:
        """Where the present state comes from when somebody asks."""
        self._waiting.set_function(waiting)
        self._running.set_function(running)
        self._registry.register(_Streaming(stats))

    def answered(self, completion: Completion) -> None:
        """An answer is complete."""
        stats = completion.stats
        self._prompt.inc(stats.prompt_tokens)
        self._cached.inc(stats.cached_tokens)
        self._answer.inc(stats.completion_tokens)
        self._prefill.inc(stats.prefill_seconds)
        self._decode.inc(stats.decode_seconds)

    def text(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self._registry)


class _Streaming(Collector):
    """The engine's own totals."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self._stats()
        for name, words in _COUNTERS.items():
            if name in stats:
                yield CounterMetricFamily(f"swiftlet_expert_{name}", words, value=stats[name])
        for name, words in _GAUGES.items():
            if name in stats:
                yield GaugeMetricFamily(f"swiftlet_{name}", words, value=stats[name])
