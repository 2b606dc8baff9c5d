"""The command ``gpu-aug``: each file holds one command, which parses, calls the library and prints."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave the process with its exit code."""
    from bench.cli.app import app
    from bench.output.errors import call

    call(app, arguments)
