"""Iceberg tables: Parquet files, of which the table's metadata lists the valid ones."""
