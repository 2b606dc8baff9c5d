"""Run the command ``gpu-aug``: parse arguments, call the library and print."""

import sys
from collections.abc import Sequence
from importlib import import_module


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its exit code.

    Args:
        arguments: The arguments after the program's name; None means those of this process.
    """
    try:
        import_module("dali_pipes.foreign_packages")  # raises if other packages hide ours
    except ImportError as error:
        sys.exit(f"gpu-aug: {error}")
    from bench.cli.app import app
    from bench.output.errors import call

    call(app, arguments)
