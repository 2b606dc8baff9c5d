"""Decode JPEGs of several scans, progressive or sequential: all scans are read in parallel, row of MCUs by row."""
