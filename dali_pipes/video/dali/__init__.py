"""Decode clips with DALI: make excerpts of videos, decode them, and render the frames to canvases."""
