"""Decoding with NVIDIA DALI: graphs, feeding them, and pipelines that users bring."""
