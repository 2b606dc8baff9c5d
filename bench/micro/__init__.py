"""Measurements of single parts: operations, the batch stage, crops, overhead, how cost grows."""
