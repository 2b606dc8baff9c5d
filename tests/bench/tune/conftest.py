"""Data for tuning: those of the commands."""

from tests.bench.cli.conftest import data as data
