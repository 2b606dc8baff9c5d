"""Iceberg tables: their metadata says which Parquet files are valid."""
