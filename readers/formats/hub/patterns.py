"""Which files of a repository patterns name, and whether all parts of a split are there."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from readers.sample import SourceError
from readers.storage.paths import expand_braces

_PART = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})(.*)", re.DOTALL)


def matching(patterns: Iterable[str], names: Sequence[str], shown: str) -> list[str]:
    """Return the files that patterns name, each once, sorted within a pattern.

    ``*`` and ``?`` stand for characters other than a slash, ``**`` for any, and a folder for all that lies below it.
    Names that begin with a dot, and folders whose names begin with two underscores, are left out unless they are
    written out.

    Args:
        patterns: Relative to the repository.
        names: Its files, with slashes.
        shown: The repository, for errors.

    Raises:
        SourceError: A pattern leads out of the repository, or fits nothing.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if "://" in pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise SourceError(
                f"{shown} names the files {pattern!r}, which lie elsewhere: download them, and open them there"
            )
        fitting = [name for each in expand_braces(pattern) for name in _fitting(each, names)]
        if not fitting:
            raise SourceError(f"{shown} has no files {pattern!r}: correct the pattern")
        found |= dict.fromkeys(fitting)
    return list(found)


def visible(names: Iterable[str]) -> list[str]:
    """Those that a pattern fits, sorted: no part of them begins with a dot, no folder with two underscores."""
    return sorted(name for name in names if not _is_hidden(name))


def require_all_parts(names: Sequence[str], shown: str) -> None:
    """See that of files that count themselves (``train-00000-of-00002``) all are there.

    Raises:
        SourceError: Some are not.
    """
    parts: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name in names:
        if found := _PART.fullmatch(name):
            parts[found[1], found[3], found[4]].add(found[2])
    for (begin, total, end), there in parts.items():
        if len(there) < int(total):
            raise SourceError(
                f"{shown} holds {len(there)} of the {int(total)} files {begin}-*-of-{total}{end}: download the others"
            )


def _fitting(pattern: str, names: Sequence[str]) -> list[str]:
    pattern = pattern.removeprefix("./").rstrip("/")
    if pattern in names:
        return [pattern]
    fits = re.compile(_translated(pattern), re.DOTALL).fullmatch
    seen = names if _is_hidden(pattern) else visible(names)
    return sorted(name for name in seen if fits(name)) or sorted(
        name for name in seen if name.startswith(f"{pattern}/")
    )


def _translated(pattern: str) -> str:
    """A regular expression for a pattern."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\])", pattern)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        words.get(piece)
        or (re.sub(r"^\[!", "[^", piece) if piece[:1] == "[" and piece[1:] else re.escape(piece))
        for piece in pieces
    )


def _is_hidden(name: str) -> bool:
    *folders, last = name.split("/")
    return last.startswith(".") or any(folder.startswith((".", "__")) for folder in folders)
