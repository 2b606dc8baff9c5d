"""Fingerprints: short texts that tell whether data is the same."""

import hashlib


def fingerprint_of(*parts: str | bytes) -> str:
    """Return 32 hex digits over some texts, one after another without anything between them.

    Texts may hold file names that are not UTF-8, as Python reads these (surrogateescape).
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part)
    return digest.hexdigest()[:32]
