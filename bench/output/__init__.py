"""What commands and measurements print and write: text, tables, progress, results, errors."""
