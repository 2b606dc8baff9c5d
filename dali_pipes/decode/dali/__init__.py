"""Decoding by NVIDIA DALI: its graph, how it is fed, and pipelines that users bring."""
