"""Clips of videos: which frames they are made of, and how these are decoded."""
