"""The formats that datasets are stored in: one module or folder each, and the registry that names them all."""
