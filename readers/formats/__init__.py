"""The formats that datasets are stored in: one module or package for each format."""
