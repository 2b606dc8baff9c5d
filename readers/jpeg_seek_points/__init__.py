"""Stored seek points of JPEGs, with which a part of an image is decoded without reading what lies before it."""
