"""Output of commands and measurements: text, tables, progress, results, errors."""
