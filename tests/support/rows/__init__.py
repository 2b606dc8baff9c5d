"""One row per operation: what the engines are compared on."""
