"""Provide the command line, compare with other pipelines, and make pictures and reports."""
