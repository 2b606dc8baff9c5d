"""Parquet files, and single values out of their pages."""
