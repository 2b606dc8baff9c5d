"""Clips with DALI: excerpts of videos, the decoder for them, and canvases of its frames."""
