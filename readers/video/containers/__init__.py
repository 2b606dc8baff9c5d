"""Containers of video: their packets, and missing or damaged bytes."""
