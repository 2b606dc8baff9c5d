"""What `open_dataset` says: errors and warnings."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from readers import SourceError, open_dataset


def assert_refused(
    match: str, source: Any, by: Callable[..., Any] = open_dataset, **options: Any
) -> None:
    """Check that a source is refused with an error that matches, by `open_dataset` or by another class."""
    with pytest.raises(SourceError, match=match):
        by(source, **options)


def open_with_warning(match: str, source: Any, **options: Any) -> Any:
    """Open a source, and check that a warning comes that matches; returns the dataset."""
    with pytest.warns(UserWarning, match=match):
        return open_dataset(source, **options)


def warnings_of(source: Any, **options: Any) -> list[str]:
    """Open a source and return the texts of all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open_dataset(source, **options)
    return [str(one.message) for one in caught]
