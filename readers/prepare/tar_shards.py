"""Writing a stream of samples to tar shards."""

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from readers.prepare.atomic_files import atomic_file
from readers.prepare.packer import Packed, Refused, free_key, headers_of
from readers.sample import BadSample, Payload

_BLOCK_BYTES = tarfile.BLOCKSIZE
_ZEROS = bytes(_BLOCK_BYTES)


class Stream:
    """Samples in order, of which the next can be looked at before it is taken.

    Args:
        samples: Begin at the position and leave none out.
        position: Position of the first one in the order.
    """

    def __init__(self, samples: Iterator[Packed | Refused], position: int) -> None:
        self._samples = samples
        self._next = next(samples, None)
        self.position = position
        self._bad: list[BadSample] = []

    def peek(self) -> Packed | None:
        """The next sample that can be packed; those before it that cannot are kept for `take_bad`."""
        while isinstance(self._next, Refused):
            self._bad.append(self._next.bad)
            self.skip()
        return self._next

    def take_bad(self) -> list[BadSample]:
        """Samples that could not be packed since the last call."""
        bad, self._bad = self._bad, []
        return bad

    def skip(self) -> None:
        """Go on to the sample behind it."""
        self._next = next(self._samples, None)
        self.position += 1


def write_tar(path: Path, stream: Stream, *, most_bytes: int) -> dict[str, object]:
    """Write samples while they fit; the shard appears when it is whole.

    Args:
        path: The name of the shard.
        stream: Where samples come from; there is one.
        most_bytes: The largest size, unless a single sample is larger.

    Returns:
        What the manifest notes of a shard.
    """
    begin, before_bytes = stream.position, 0
    keys: set[str] = set()
    reasons: Counter[str] = Counter()
    with atomic_file(path, to_disk=True) as file:
        while (sample := stream.peek()) is not None:
            key = free_key(sample.name, keys)
            pieces = _pieces(key, sample)
            if keys and _finished_bytes(file.tell() + sum(map(len, pieces))) > most_bytes:
                break
            file.writelines(pieces)
            keys.add(key)
            reasons.update(sample.reasons)
            before_bytes += sample.before_bytes
            stream.skip()
        file.write(bytes(_finished_bytes(file.tell()) - file.tell()))
        size_bytes = file.tell()
    return {
        "name": path.name,
        "begin": begin,
        "end": stream.position,
        "samples": len(keys),
        "bytes": size_bytes,
        "source_bytes": before_bytes,
        "tiled": reasons.pop("", 0),
        "left": dict(reasons),
    }


def _pieces(key: str, sample: Packed) -> list[Payload]:
    """Headers, contents and what fills their last blocks."""
    headers = sample.headers if key == sample.name else headers_of(key, sample.fields)
    pieces: list[Payload] = []
    for head, (_, data) in zip(headers, sample.fields, strict=True):
        pieces += [head, data, _ZEROS[: -len(data) % _BLOCK_BYTES]]
    return pieces


def _finished_bytes(size_bytes: int) -> int:
    """Size of a shard with the zeros at its end."""
    return -(-(size_bytes + 2 * _BLOCK_BYTES) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
