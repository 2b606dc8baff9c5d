"""Delta tables: their log says which Parquet files and rows are valid."""
