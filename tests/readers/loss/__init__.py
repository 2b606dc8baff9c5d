"""One module per kind of silent loss. Each has CELLS: for every format of the registry, a `tests.support.loss.Cell`."""
