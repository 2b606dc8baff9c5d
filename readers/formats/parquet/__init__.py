"""Parquet files, with access to single values in their pages."""
