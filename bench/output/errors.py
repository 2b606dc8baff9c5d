"""Errors that a user of the command line can act on, in one sentence each."""

import sys
from collections.abc import Callable, Sequence

DEBUG_FLAG = "--debug"


class BenchError(Exception):
    """Something the commands were asked to do and cannot; the text is one sentence."""


def call(command: Callable[[list[str]], None], arguments: Sequence[str] | None = None) -> None:
    """Call a command line and leave the process with its exit code.

    An error that the packages raise on purpose becomes one red sentence and exit code 2. Any other error
    is a defect and keeps its traceback, as everything does under --debug, which is taken out of the
    arguments wherever it stands. Ctrl-C gives exit code 130, which is typer's doing.

    Args:
        command: Gets the arguments without --debug.
        arguments: What follows the program's name; None means those of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG_FLAG in given
    try:
        command([argument for argument in given if argument != DEBUG_FLAG])
    except Exception as error:
        if debug or not isinstance(error, _expected()):
            raise
        show(error)
        sys.exit(2)


def show(error: Exception) -> None:
    """Print an error as one sentence on standard error, red on a terminal."""
    from rich.console import Console
    from rich.text import Text

    from bench.output.text import printable

    Console(stderr=True, soft_wrap=True).print(Text(f"error: {printable(str(error))}", style="red"))


def _expected() -> tuple[type[Exception], ...]:
    # Imported here: an error at start-up should not first load torch to be told apart.
    from dali_pipes import BadSampleError, LoaderError, MissingPackageError
    from gpu_aug import EngineError, RecipeError
    from readers import ReadersError

    return (
        BenchError,
        ReadersError,
        RecipeError,
        EngineError,
        LoaderError,  # and StateMismatchError, which is one
        MissingPackageError,
        BadSampleError,
    )
