"""Programs on the CPU: compiled loops over lines of pixels."""
