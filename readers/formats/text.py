"""Parsing of lines, JSON objects, typed structs and numbers, with errors that name the place."""

import json
import math
from collections.abc import Iterator
from typing import Any, TypeVar

from readers.formats.columns import shorten
from readers.sample import Payload

Content = TypeVar("Content")


def filled_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not empty, without the white space around them, and their numbers from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if stripped := line.strip():
            yield number, stripped


def filled_rows(data: bytes, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line of an encoded text that is not empty, and the numbers of the lines from 1.

    Args:
        data: Text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.
        name: Name of the text, for the error.

    Raises:
        ValueError: The bytes are no such text.
    """
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        raise ValueError(f"{name} is no text in UTF-8") from None
    for number, line in filled_lines(text):
        yield number, line.split()


def parse_object(text: Payload, where: str = "it", encoding: str | None = None) -> dict[str, Any]:
    """Return a JSON object.

    Args:
        text: The encoded JSON.
        where: Name of the text in errors.
        encoding: The only allowed encoding; None allows those of JSON: UTF-8, UTF-16 and UTF-32.

    Raises:
        ValueError: The text is not JSON, or not an object.
    """
    try:
        found = json.loads(str(text, encoding) if encoding else bytes(text))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where} has a byte that is not {error.encoding.upper()} ({error.reason})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where} is no JSON object but {shorten(found)}")
    return found


def to_struct(value: object, kind: type[Content], where: str = "") -> Content:
    """Return parsed JSON or YAML as a msgspec struct or a dataclass; unknown keys are ignored.

    `parse_object` parses the JSON, because msgspec's own parser refuses NaN, a byte order mark and UTF-16, which occur in
    practice, and accepts invalid bytes in unknown keys.

    Args:
        value: Dicts, lists, text and numbers.
        kind: The struct or dataclass.
        where: Beginning of the error, such as the name of the file.

    Raises:
        ValueError: A value is missing or not allowed; the text has its path, such as ``$.shapes[3].label``.
    """
    # Imported late: it takes 10 ms, and `import readers` imports this module.
    import msgspec

    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # a key of half a character
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


def finite_number(text: str | None, where: str) -> float:
    """Return a number that is written as text.

    Args:
        text: The text; None if it is missing.
        where: Name of the number in errors.

    Raises:
        ValueError: The text is missing, or is not a finite number.
    """
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where} must be a number, got {shorten(text)}")
    return value
