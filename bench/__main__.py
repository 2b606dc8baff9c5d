"""Run as ``python -m bench``: the same as the command ``gpu-aug``."""

from bench.cli import main

if __name__ == "__main__":
    main()
