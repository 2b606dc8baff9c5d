"""Exceptions of a loader, and texts for their messages.

Exception
├── ValueError
│   └── LoaderError            an invalid argument, or a loader that cannot continue
│       └── StateMismatchError a saved state of another dataset, recipe or version
├── RuntimeError
│   ├── ClusterError           a Ray cluster that cannot be reached, or whose workers are unsuitable
│   ├── BadSampleError         a bad sample with on_bad_sample="raise", or too many bad samples
│   └── DecodeError            a sample that cannot be decoded; the loader records it
└── ImportError
    └── MissingPackageError    a package that is not installed; the message says how to install it
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from readers.describe import without_addresses


class LoaderError(ValueError):
    """An invalid argument of the loader, or a loader that cannot continue.

    A loader cannot continue if a helper process dies, after a fork, if a user's dataset returns a wrong number of
    samples, or if a device returns wrong results.

    Example:
        >>> Loader(open_dataset("photos/"), Recipe.imagenet_train(), batch_size=0)
        Traceback (most recent call last):
        LoaderError: ...
    """


class StateMismatchError(LoaderError):
    """A saved state that belongs to another dataset, recipe or version.

    Example:
        >>> photos = open_dataset("photos/")
        >>> state = Loader(photos, Recipe.imagenet_train(), batch_size=8).state_dict()
        >>> Loader(photos, Recipe.imagenet_train(size=64), batch_size=8).load_state_dict(state)
        Traceback (most recent call last):
        StateMismatchError: ...
    """


class BadSampleError(RuntimeError):
    """A sample that cannot be read or decoded, in a run that must not continue without it.

    Example:
        >>> loader = Loader.eval(open_dataset("damaged/"), Recipe.imagenet_eval(), batch_size=4)
        >>> for batch in loader:
        ...     pass
        Traceback (most recent call last):
        BadSampleError: ...
    """


class ClusterError(RuntimeError):
    """A Ray cluster that cannot be reached, or whose workers are unsuitable; the message says what to do.

    Example:
        >>> from dali_pipes.integrations.ray.consistency import require_same_versions
        >>> require_same_versions({"numpy": "1.0"})        # the versions of a driver
        Traceback (most recent call last):
        ClusterError: ...
    """


class DecodeError(RuntimeError):
    """Encoded bytes that cannot be decoded to the image that their header describes."""


def error_text(error: Exception) -> str:
    """Return the text of another library's error, with the name of its class unless the text is a sentence.

    The addresses of objects are left out, so that two runs give the same text.
    """
    text = without_addresses(str(error))
    is_sentence = isinstance(error, (OSError, ValueError, SyntaxError)) and text
    return text if is_sentence else f"{type(error).__name__}: {text}".removesuffix(": ")


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and the count of the others: ``a, b, c and 7 more``."""
    others = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + others


class MissingPackageError(ImportError):
    """An optional package, needed by the chosen decoder or engine, that is not installed.

    Example:
        >>> try:
        ...     from dali_pipes.integrations.torchdata import LoaderNode
        ... except MissingPackageError as error:
        ...     print(error)                               # how to install it
    """


def import_optional(module: str, missing: str) -> Any:
    """Import and return a module of an optional package.

    Args:
        module: Name of the module.
        missing: The error if the package is not installed: what needs it, and the command that installs it.

    Raises:
        MissingPackageError: The package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(missing) from error
