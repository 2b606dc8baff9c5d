"""Reading annotations for what all of them tell together: classes, coordinates, sizes, an identity."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from readers.sample import SourceError
from readers.storage.unreadable import is_transient

Name = TypeVar("Name")
Content = TypeVar("Content")

NEEDED_FOR_CLASSES = (
    "it may name further classes, without which the numbers of the others shift: repair it, remove it, or give all "
    "names, classes=['cat', 'dog']"
)
"""For `read_if_sound`, where names of classes are collected."""


def read_each(
    objects: Iterable[Name], read: Callable[[Name], Content], name_of: Callable[[int, Name], str]
) -> list[Content]:
    """Return what `read` makes of each object.

    Args:
        objects: Annotations, rows.
        read: Makes something of one, or raises ValueError.
        name_of: Names an object by its number and itself.

    Raises:
        ValueError: As `read` raised it, with the name of the object before it.
    """
    found = []
    for number, one in enumerate(objects):
        try:
            found.append(read(one))
        except ValueError as error:
            raise ValueError(f"{name_of(number, one)}: {error}") from error
    return found


def read_if_sound(
    read: Callable[[Name], Content], name: Name, needed_for: str = ""
) -> Content | None:
    """Return what a file of annotations holds, None where it is damaged for good and not needed.

    Args:
        read: Reads it, or raises ValueError or SourceError with a text that names it.
        name: What `read` is given.
        needed_for: Why nothing can be decided without it, and what to do; "" where it can be left out.

    Raises:
        SourceError: The storage failed, so that what the file holds is not known; or it is damaged, and needed.
    """
    try:
        return read(name)
    except (ValueError, SourceError) as error:
        if is_transient(error):
            raise SourceError(
                f"{error}: the storage failed and not the data, so that nothing is concluded from it; open the data again"
            ) from error
        if needed_for:
            raise SourceError(f"{error}: {needed_for}") from error
        return None
