"""Finding undamaged frames: FFmpeg marks damaged frames, but not frames predicted from them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dali_pipes.video.codec import UndecodableError
from dali_pipes.video.packets import Run, first_packets
from readers.video import VideoInfo
from readers.video.info import HIDDEN


def sound_frames(
    info: VideoInfo, run: Run, decoded: Iterable[tuple[int, Any]]
) -> Iterator[tuple[int, Any]]:
    """Pass frames on once nothing that is decoded before them can turn out to be damaged.

    A frame is sound when neither it is marked as damaged, nor one that is decoded before it, from its keyframe on.

    Args:
        info: Metadata of the video.
        run: What is decoded.
        decoded: Packet and `av.VideoFrame`, in the order of presentation.

    Yields:
        Those whose packets are needed and which are sound.

    Raises:
        UndecodableError: As `decoded` does, after all frames that came before.
    """
    shown = info.packet_pts[run.start : run.stop]
    shown = np.where(shown < HIDDEN, shown, np.iinfo(np.int64).min)
    last_shown = np.maximum.accumulate(shown)  # of the packets up to each one
    firsts = first_packets(info, np.arange(run.start, run.stop)) - run.start
    damaged = np.zeros(len(shown), bool)
    held: dict[int, Any] = {}
    failure: UndecodableError | None = None

    def is_sound(row: int) -> bool:
        return not damaged[max(int(firsts[row]), 0) : row + 1].any()

    source = iter(decoded)
    while True:
        try:
            packet, frame = next(source)
        except StopIteration:
            break
        except UndecodableError as error:
            failure = error
            break
        row = packet - run.start
        # What an open group shows before its keyframe cannot be decoded from there, and nothing else needs it.
        damaged[row] |= bool(frame.is_corrupt) and shown[row] >= shown[0]
        if run.needed[row]:
            held[row] = frame
        for ready in [number for number in held if last_shown[number] <= shown[row]]:
            picture = held.pop(ready)
            if is_sound(ready) and not picture.is_corrupt:
                yield run.start + ready, picture
    for ready, picture in held.items():
        if is_sound(ready) and not picture.is_corrupt:
            yield run.start + ready, picture
    if failure:
        raise failure
