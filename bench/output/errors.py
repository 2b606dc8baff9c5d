"""Show errors on which a user of the command line can act, in one sentence each."""

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import TextIO, TypeVar

DEBUG_FLAG = "--debug"
Choice = TypeVar("Choice")
_SPLIT = re.compile(r"open_dataset\(\.\.\., split='(\w+)'\)")  # the Python form of the advice


class BenchError(Exception):
    """A command cannot do what was requested; the message is one sentence."""


def require_above_zero(**values: float | None) -> None:
    """Check the numbers of a measurement by name; None stands for one that was not given.

    Raises:
        BenchError: A number is not greater than 0, or not finite.
    """
    for name, value in values.items():
        if value is not None and not 0 < value < inf:  # NaN fails this comparison, too
            raise BenchError(
                f"{name} must be greater than 0, got {value}: leave it out to get the default"
            )


def choose(what: str, name: str, choices: Mapping[str, Choice]) -> Choice:
    """Return the choice with a name.

    Raises:
        BenchError: No choice has this name.
    """
    if name not in choices:
        raise BenchError(f"{what} must be one of {', '.join(choices)}, got {name!r}: choose one")
    return choices[name]


def call(command: Callable[[list[str]], None], arguments: Sequence[str] | None = None) -> None:
    """Call a command line and exit the process with its exit code.

    An error that the packages raise on purpose becomes one red sentence and exit code 2. Any other error is a defect
    and keeps its traceback. With --debug, which is removed from the arguments at any position, every error keeps its
    traceback. A warning of the packages, raised or logged, becomes one yellow sentence. Ctrl-C gives exit code 130, set
    by typer.

    Args:
        command: Called with the arguments without --debug.
        arguments: The arguments after the program's name; None means those of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG_FLAG in given
    try:
        with warnings.catch_warnings(), _logged_warnings():
            if not debug:
                warnings.showwarning = _show_warning
            command([argument for argument in given if argument != DEBUG_FLAG])
    except Exception as error:
        if debug or not isinstance(error, _expected()):
            raise
        show(error)
        sys.exit(2)


def one_line(error: Exception) -> str:
    """Return the type of an error, and the sentence that describes it."""
    # The error of a worker process contains its traceback; the last line says what went wrong.
    lines = str(error).strip().splitlines() or [""]
    text = lines[-1] if "Traceback" in str(error) else " ".join(" ".join(lines).split())
    return f"{type(error).__name__}: {text}"[:300]


def show(error: Exception) -> None:
    """Print an error as one sentence on standard error, red on a terminal."""
    _print("error: " + _SPLIT.sub(r"--split \1", str(error)), "red")


def show_plainly(text: str) -> None:
    """Print a line that is not an error on standard error, yellow on a terminal."""
    _print(text, "yellow")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Replace `warnings.showwarning`, which would name a line of our code."""
    if issubclass(category, UserWarning | RuntimeWarning):
        _print(f"warning: {message}", "yellow")
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)


class _Teller(logging.Handler):
    """A logging handler that prints each text once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, without its traceback."""
        text = record.getMessage()
        if text not in self._told:
            self._told.add(text)
            is_error = record.levelno >= logging.ERROR
            _print(f"{'error' if is_error else 'warning'}: {text}", "red" if is_error else "yellow")


@contextmanager
def _logged_warnings() -> Iterator[None]:
    """Print the warnings that the packages log; without logging set up, they would not be visible."""
    logger, teller = logging.getLogger("gpu_aug"), _Teller()
    logger.addHandler(teller)
    try:
        yield
    finally:
        logger.removeHandler(teller)


def _print(text: str, style: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from bench.output.text import printable

    Console(stderr=True, soft_wrap=True).print(Text(printable(text), style=style))


def _expected() -> tuple[type[Exception], ...]:
    # Imported here, so that an error at start-up does not load torch first.
    from dali_pipes import BadSampleError, ClusterError, LoaderError, MissingPackageError
    from gpu_aug import EngineError, RecipeError
    from readers import ReadersError

    return (
        BenchError,
        ReadersError,
        RecipeError,
        EngineError,
        LoaderError,  # includes StateMismatchError
        MissingPackageError,
        BadSampleError,
        ClusterError,
    )
