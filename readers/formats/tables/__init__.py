"""Tables of Arrow data: which of their columns make up a sample, and how. For Parquet and Arrow files."""
