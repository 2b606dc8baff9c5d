"""What belongs to a frame but its pictures, as fields: numbers, texts, and what is known of the window around it."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.frames import Frames
from readers.formats.lerobot.meta import EPISODE, FRAME, Info
from readers.formats.lerobot.payloads import to_npy, to_text
from readers.formats.lerobot.places import Place
from readers.formats.lerobot.windows import clamped
from readers.sample import Payload, SourceError


class Values:
    """Reads the values of frames.

    Args:
        frames: The tables.
        info: Says which features there are.
        tables: Names of the tables, for errors.
        offsets: By feature, int64 [T], the frames around a frame that belong to it.
        texts: By word ("task"), the texts that numbers stand for.
    """

    def __init__(
        self,
        frames: Frames,
        info: Info,
        tables: Sequence[str],
        offsets: Mapping[str, NDArray[np.int64]],
        texts: Mapping[str, Mapping[int, str]],
    ) -> None:
        self._frames, self._features, self._tables = frames, info.features, tables
        self._offsets, self._texts = offsets, texts

    def read(self, place: Place) -> dict[str, Payload]:
        """Read the fields of a frame.

        Raises:
            SourceError: Its row is that of another frame, or cannot be read.
            OSError: The file is gone or has changed.
        """
        found = [self._at(place, name) for name in (EPISODE, FRAME)]
        if found != [place.number, place.row - place.start]:
            raise SourceError(
                f"its row in {self._tables[place.table]} says episode {found[0]}, frame {found[1]}: meta/episodes "
                "and the table disagree, write the dataset again"
            )
        fields: dict[str, Payload] = {}
        for name, feature in self._features.items():
            offsets = self._offsets.get(name)
            rows = np.array([place.row])
            if offsets is not None:
                rows, is_pad = clamped(place.row, place.start, place.stop, offsets)
                fields[f"{name}_is_pad"] = to_npy(is_pad)
            if feature.is_camera:
                continue
            values = self._frames.values(place.table, name, rows)
            if feature.kind == "text":
                fields[name] = to_text(values, single=offsets is None)
            else:
                fields[name] = to_npy(values[0] if offsets is None else values)
        return fields

    def add_texts(self, fields: dict[str, Payload], place: Place) -> int:
        """Add the texts that numbers stand for; return the number of the task, -1 for none.

        Raises:
            SourceError: There is no text for a number.
        """
        numbers = {word: self._at(place, f"{word}_index") for word in self._texts}
        for word, number in numbers.items():
            if number not in self._texts[word]:
                raise SourceError(f"its {word}_index is {number}, which meta/{word}s.parquet lacks")
            fields[word] = self._texts[word][number].encode()
        return numbers.get("task", -1)

    def _at(self, place: Place, name: str) -> int:
        return int(self._frames.values(place.table, name, np.array([place.row]))[0])
