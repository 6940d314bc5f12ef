"""The metrics in the format of Prometheus: rendered in slices, at most once a second for all peers.

Invariant: one call renders one slice, however many peers ask, and all peers share a text that is
younger than `FRESH_US`. Must never know HTTP, nor the meaning of the metrics.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as _openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from daybook.protocols.port import Family, Histogram, MonitoringView, Reading

FRESH_US: Final = 1_000_000
"""How long a text is valid for all peers; an unfinished text is started again after this time."""

TEXT: Final = CONTENT_TYPE_PLAIN_0_0_4
OPEN_METRICS: Final = _openmetrics.CONTENT_TYPE_LATEST
_OPEN_METRICS_TYPE: Final = "application/openmetrics-text"
_END: Final = b"# EOF\n"


def content_type(accept: str) -> str:
    """Return the format for a header Accept: the plain text format, unless it names OpenMetrics."""
    return OPEN_METRICS if _OPEN_METRICS_TYPE in accept else TEXT


class Exposition:
    """The texts of a server's metrics, one for each format."""

    def __init__(self, view: MonitoringView, names_max: int) -> None:
        self._texts: Final = {
            form: _Text(view, names_max, is_open) for form, is_open in _FORMS.items()
        }

    def text(self, form: str, now: int) -> bytes | None:
        """Return the text in a format; None while it is unfinished: call again in a later turn."""
        return self._texts[form].get(now)


_FORMS: Final = {TEXT: False, OPEN_METRICS: True}


class _Text:
    """The last text in one format, and the next one that is being rendered."""

    def __init__(self, view: MonitoringView, names_max: int, is_open: bool) -> None:
        self._view: Final = view
        self._names_max: Final = names_max
        self._is_open: Final = is_open
        self._text = b""
        self._made = 0
        self._slices: Iterator[bytes] | None = None
        self._parts: list[bytes] = []
        self._moved = 0

    def get(self, now: int) -> bytes | None:
        """Return the text if it is fresh; else render a slice of the next one."""
        if self._text and 0 <= now - self._made < FRESH_US:
            return self._text
        if self._slices is None or not 0 <= now - self._moved < FRESH_US:
            self._slices, self._parts = self._render(), []
        self._moved = now
        part = next(self._slices, None)
        if part is not None:
            self._parts.append(part)
            return None
        self._text, self._made = b"".join(self._parts), now
        self._slices, self._parts = None, []
        return self._text

    def _render(self) -> Iterator[bytes]:
        last: Family | None = None
        for reading in self._view.readings(self._names_max):
            if reading is None:
                yield b""
                continue
            yield rendered(reading, is_open=self._is_open, is_first=reading.family is not last)
            last = reading.family
        if self._is_open:
            yield _END


class _One(Collector):
    """A collector of a single metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric: Final = metric

    def collect(self) -> Iterable[Metric]:
        """Return the metric."""
        return (self._metric,)


def rendered(reading: Reading, *, is_open: bool, is_first: bool) -> bytes:
    """Render a reading; the first one of a family begins with the lines about the family."""
    one = _One(_metric(reading))
    text = _openmetrics.generate_latest(one) if is_open else generate_latest(one)
    text = text.removesuffix(_END) if is_open else text
    if not is_first:
        while text.startswith(b"# "):
            text = text[text.index(b"\n") + 1 :]
    return text


def _metric(reading: Reading) -> Metric:
    family, values = reading
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in values:
            assert isinstance(value, Histogram)
            buckets = [(floatToGoString(bound), float(count)) for bound, count in value.buckets]
            histogram.add_metric(labels, buckets, value.sum)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in values:
        assert not isinstance(value, Histogram)
        metric.add_metric(labels, value)
    return metric
