"""Fingerprints: short texts that are equal if the data is equal."""

import hashlib
from collections.abc import Iterable
from itertools import chain


def fingerprint_of(*parts: str | bytes, further: Iterable[str | bytes] = ()) -> str:
    """Return the first 32 hex digits of the SHA-256 of some texts, which are concatenated without separators.

    Texts may hold file names that are not valid UTF-8, as Python decodes them (surrogateescape).

    Args:
        parts: The first texts.
        further: The texts after these, such as one for each of a million files; they are not kept in memory.
    """
    digest = hashlib.sha256()
    for part in chain(parts, further):
        digest.update(part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part)
    return digest.hexdigest()[:32]
