"""A storage that fails for a while."""

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def failing(path: Path) -> Iterator[None]:
    """Let opening, listing and asking for the size of one path fail with EIO, as on a network disk that is away."""

    def broken(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(where: Any, *args: Any, **options: Any) -> Any:
            if isinstance(where, str | os.PathLike) and os.fspath(where) == str(path):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return function(where, *args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((os, "open"), (os, "scandir"), (os, "listdir"), (io, "open")):
            patch.setattr(module, name, broken(getattr(module, name)))
        patch.setattr("builtins.open", broken(open))
        yield
