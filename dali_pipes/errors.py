"""Exceptions of a loader.

Exception
├── ValueError
│   └── LoaderError            an argument that cannot work, or a loader that cannot go on
│       └── StateMismatchError a state of another dataset, recipe or version
├── RuntimeError
│   ├── ClusterError           a Ray cluster that cannot be reached, or whose workers cannot do the work
│   ├── BadSampleError         a bad sample under on_bad_sample="raise", or too many of them
│   └── DecodeError            one sample that does not decode; the loader turns it into a record
└── ImportError
    └── MissingPackageError    a part that is not installed; the text says how to install it
"""


class LoaderError(ValueError):
    """An argument of the loader that cannot work, or a loader that cannot go on.

    The second are the death of a helper process, a use after a fork, a user's dataset that returns a wrong number of samples,
    and wrong results of a device.

    Example:
        >>> Loader(open_dataset("photos/"), Recipe.imagenet_train(), batch_size=0)
        Traceback (most recent call last):
        LoaderError: ...
    """


class StateMismatchError(LoaderError):
    """A saved state that does not belong to this dataset, recipe or version.

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
    """A Ray cluster that cannot be reached, or with unsuitable workers; the text says what to do.

    Example:
        >>> from dali_pipes.integrations.ray.consistency import require_same_versions
        >>> require_same_versions({"numpy": "1.0"})        # the versions of a driver
        Traceback (most recent call last):
        ClusterError: ...
    """


class DecodeError(RuntimeError):
    """Encoded bytes that do not decode to the picture that their header describes."""


def error_text(error: Exception) -> str:
    """Return the text of another library's error, after the name of its class unless the texts of that are sentences."""
    text = str(error)
    is_sentence = isinstance(error, (OSError, ValueError, SyntaxError)) and text
    return text if is_sentence else f"{type(error).__name__}: {text}".removesuffix(": ")


class MissingPackageError(ImportError):
    """An optional package that the chosen decoder or engine needs and that is not installed.

    Example:
        >>> try:
        ...     from dali_pipes.integrations.torchdata import LoaderNode
        ... except MissingPackageError as error:
        ...     print(error)                               # how to install it
    """
