"""The console script: starts the command line of `bench`, once it is sure that it is ours.

`bench` is imported by its name at run time, because a foreign `bench` in front of ours could not say so itself.
"""

import importlib
import sys

from dali_pipes import foreign_packages


def main() -> None:
    """Run the command `gpu-aug`."""
    try:
        foreign_packages.check("bench")
    except ImportError as error:
        sys.exit(f"gpu-aug: {error}")
    importlib.import_module("bench.cli").main()


if __name__ == "__main__":
    main()
