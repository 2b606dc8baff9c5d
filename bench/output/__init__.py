"""Show the output of commands and measurements: text, tables, progress, results, errors."""
