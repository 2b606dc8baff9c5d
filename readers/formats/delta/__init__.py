"""Delta tables: Parquet files, of which the table's log lists the valid ones."""
