"""Adapters that send a loader's statistics to monitoring systems: pass one to ``Monitoring(metrics=...)``."""

from dali_pipes.integrations.metrics.opentelemetry import OpenTelemetry
from dali_pipes.integrations.metrics.prometheus import Prometheus
from dali_pipes.integrations.metrics.scalars import Logged, TensorBoard

__all__ = ["Logged", "OpenTelemetry", "Prometheus", "TensorBoard"]
