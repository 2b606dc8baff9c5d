"""Kinds of videos that DALI turns out not to decode on this machine."""

import warnings
from collections import Counter

from readers.video import VideoInfo

Kind = tuple[str, str, int, int]

_ENOUGH = 3  # refused ones of a kind of which none was decoded


class Refusals:
    """Remembers of which kinds of videos DALI decoded some, and which it refused."""

    def __init__(self) -> None:
        self._decoded: set[Kind] = set()
        self._refused: Counter[Kind] = Counter()

    def is_hopeless(self, info: VideoInfo) -> bool:
        """Whether DALI has refused several videos of this kind, and decoded none."""
        kind = _kind(info)
        return kind not in self._decoded and self._refused[kind] >= _ENOUGH

    def note(self, info: VideoInfo, *, decoded: bool, said: str) -> None:
        """Remember what became of a video; warn when its kind has become hopeless.

        Args:
            info: Of the video.
            decoded: Whether DALI decoded it.
            said: By DALI, otherwise.
        """
        kind = _kind(info)
        if decoded:
            self._decoded.add(kind)
            return
        self._refused[kind] += 1
        if self._refused[kind] == _ENOUGH and self.is_hopeless(info):
            codec, pixel_format, height, width = kind
            warnings.warn(
                f"DALI refuses videos of {codec}, {pixel_format}, {width}x{height}, which are decoded on the CPU "
                f"from now on; DALI said: {said}",
                RuntimeWarning,
                stacklevel=2,
            )


def _kind(info: VideoInfo) -> Kind:
    return info.codec, info.pixel_format, info.height, info.width
