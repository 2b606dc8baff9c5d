"""Tests of gpu-aug tune."""
