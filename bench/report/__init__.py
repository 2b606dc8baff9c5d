"""Write one self-contained HTML page about a run or about data."""
