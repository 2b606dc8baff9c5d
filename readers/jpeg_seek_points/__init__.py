"""Checkpoints: what is known of whole JPEGs, so that a part of them is read without what lies before it."""
