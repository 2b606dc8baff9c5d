"""The scan of a shard, which finds its samples for an index."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from readers.storage.blob import Content
from readers.storage.index.index_file import Entry, Remark


@dataclass(frozen=True)
class Scan:
    """Finds the samples of the shards of a format. An index is valid for one scan only.

    Attributes:
        name: Name of the format, as in ``open_dataset(source, format=name)``.
        version: Version of the entries; it grows when the same bytes may give other entries.
        find: Yields the samples, in stored order, from the bytes and the name of a shard, and remarks on the shard, which
            the index stores. It can be pickled. A SourceError that it raises begins with the name.
        options: Options of the caller, by the names of the dataset's arguments, as values of JSON; None and False count as
            not given.
    """

    name: str
    version: int
    find: Callable[[Content, str], Iterable[Entry | Remark]]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Name, version and options as text, stored in the index."""
        return " ".join([self.name, str(self.version), *filter(None, [self._asked])])

    @property
    def tag(self) -> str:
        """Part of the file name, which differs between options; empty without options."""
        return f".{sha256(self.identity.encode()).hexdigest()[:8]}" if self._asked else ""

    @property
    def _asked(self) -> str:
        asked = {
            name: value
            for name, value in self.options.items()
            if value is not None and value is not False
        }
        return json.dumps(asked, sort_keys=True) if asked else ""
