"""Folders of classes: warnings about their layout, and the numbers of classes in several splits."""
