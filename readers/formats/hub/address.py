"""URLs of dataset repositories: hf://datasets/NAMESPACE/NAME@REVISION/PATH."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from readers.sample import SourceError

SCHEME = "hf://"
_KIND = "datasets/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Revisions with slashes that are not percent-encoded, as the Hub names its own.
_LONG = re.compile(r"(refs/(?:convert/[^/]+|pr/[0-9]+))(?:/(.*))?")


class HubAddress(NamedTuple):
    """A parsed URL.

    Attributes:
        repository: ``NAMESPACE/NAME``, or ``NAME`` alone.
        revision: Branch, tag or commit; None is the main branch.
        path: Of a file, a folder or a pattern in it; "" is all of it.
    """

    repository: str
    revision: str | None
    path: str

    @classmethod
    def of(cls, url: str) -> "HubAddress":
        """Take a URL apart.

        Raises:
            SourceError: It names no dataset repository.
        """
        rest = url[len(SCHEME) :]
        if not rest.startswith(_KIND):
            raise SourceError(
                f"{url} names no dataset: write hf://datasets/NAMESPACE/NAME, which datasets/ stands before"
            )
        before, at, after = rest.removeprefix(_KIND).partition("@")
        if not at:
            parts = before.split("/", 2)
            name, revision, path = "/".join(parts[:2]), None, "/".join(parts[2:])
        else:
            name = before
            if found := _LONG.fullmatch(after):
                revision, path = found[1], found[2] or ""
            else:
                revision, _, path = after.partition("/")
                revision = unquote(revision)
        name = name.strip("/")
        words = name.split("/")
        if len(words) > 2 or not all(map(_NAME.fullmatch, words)) or (at and not revision):
            raise SourceError(
                f"{url} names no dataset: write hf://datasets/NAMESPACE/NAME, with @REVISION behind it where that is not "
                "the main branch"
            )
        return cls(name, revision, path.strip("/"))
