"""JPEGs of several scans, progressive or sequential: all scans are read side by side, one row of MCUs after the other."""
