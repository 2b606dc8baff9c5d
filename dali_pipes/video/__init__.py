"""Clips of videos: the choice of their frames, and decoding."""
