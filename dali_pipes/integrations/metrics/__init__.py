"""A loader's statistics in other systems: give ``Monitoring(metrics=...)`` an object of one of these."""

from dali_pipes.integrations.metrics.logged import Logged
from dali_pipes.integrations.metrics.opentelemetry import OpenTelemetry
from dali_pipes.integrations.metrics.prometheus import Prometheus
from dali_pipes.integrations.metrics.tensorboard import TensorBoard

__all__ = ["Logged", "OpenTelemetry", "Prometheus", "TensorBoard"]
