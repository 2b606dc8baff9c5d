"""Run the command ``gpu-aug`` as ``python -m bench``."""

from bench.cli import main

if __name__ == "__main__":
    main()
