"""Tests of heartbeats, late ranks and stalls."""
