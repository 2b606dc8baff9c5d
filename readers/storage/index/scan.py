"""The description of a scan, which finds the samples of a shard for its index."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from readers.storage.blob import Content
from readers.storage.index.index_file import Entry, Remark


@dataclass(frozen=True)
class Scan:
    """How the samples in the shards of a format are found; an index is valid for one scan only.

    Attributes:
        name: Name of the format, as in ``open_dataset(source, format=name)``.
        version: Version of the code of the scan; it grows when a shard may give other entries than before.
        find: Yields the samples of a shard, in stored order, and remarks for the index, given the bytes and the name of the
            shard. It must be picklable. Its SourceErrors must begin with the name of the shard.
        options: Options of the dataset that change the entries, by argument name, as values of JSON; None and False count as
            not given.
    """

    name: str
    version: int
    find: Callable[[Content, str], Iterable[Entry | Remark]]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Text with name, version and options, which the index stores to check that it belongs to this scan."""
        return " ".join([self.name, str(self.version), *filter(None, [self._asked])])

    @property
    def tag(self) -> str:
        """Part of the name of index files that depends on the options; empty without options."""
        return f".{sha256(self.identity.encode()).hexdigest()[:8]}" if self._asked else ""

    @property
    def _asked(self) -> str:
        asked = {
            name: value
            for name, value in self.options.items()
            if value is not None and value is not False
        }
        return json.dumps(asked, sort_keys=True) if asked else ""
