"""Clips on DALI: excerpts of videos, the decoder that they are fed to, and canvases of its frames."""
