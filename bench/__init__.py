"""The command line, the comparison with other pipelines, and the pictures and reports they make."""
