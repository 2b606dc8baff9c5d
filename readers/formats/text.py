"""What the text of lists and descriptions consists of: lines, JSON objects and numbers."""

import json
import math
from collections.abc import Iterator
from typing import Any

from readers.formats.columns import shorten
from readers.sample import Payload


def filled_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text that are not empty, without the white space around them, and their numbers from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if stripped := line.strip():
            yield number, stripped


def parse_object(text: Payload, where: str = "it", encoding: str | None = None) -> dict[str, Any]:
    """Return a JSON object.

    Args:
        text: It, encoded.
        where: Names it, for errors.
        encoding: The only one that is allowed; None for those of JSON: UTF-8, UTF-16 and UTF-32.

    Raises:
        ValueError: The text is no JSON, or no object.
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


def finite_number(text: str | None, where: str) -> float:
    """Return a number that is written as text.

    Args:
        text: It; None where it is missing.
        where: Names it, for errors.

    Raises:
        ValueError: It is missing, no number, NaN or infinite.
    """
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where} must be a number, got {shorten(text)}")
    return value
