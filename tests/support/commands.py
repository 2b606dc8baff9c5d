"""The command line, called within the test's process."""

from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]
"""Gets the arguments; gives the exit code, standard output and standard error."""


def call_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Call `gpu-aug` with some arguments; see `Run`."""
    from bench.cli import main

    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    printed = capsys.readouterr()
    return end.value.code, printed.out, printed.err
