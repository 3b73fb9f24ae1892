"""Metrics: what the receiver counts, and what it counts in the store, for Prometheus."""

from wakegate_receiver.metrics.measures import MeasuredRecords, Measures
from wakegate_receiver.metrics.page import MetricsPage, metrics_page

__all__ = ["MeasuredRecords", "Measures", "MetricsPage", "metrics_page"]
