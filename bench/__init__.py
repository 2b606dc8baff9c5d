"""The command line, the comparison with other pipelines, and pictures and reports."""
