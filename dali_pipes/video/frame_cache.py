"""Share decoded frames among the rows and the batches of a process: each group of pictures is decoded once."""

import threading
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.codec import UndecodableError
from dali_pipes.video.color import decoded_bytes
from dali_pipes.video.decode import decode_group
from dali_pipes.video.packets import first_packets
from readers.sample import Payload
from readers.storage.lru_cache import Recent
from readers.storage.per_process import PerProcess
from readers.video import VideoInfo

FRAME_CACHE_BYTES = 256 << 20
"""Default size of the cache: 580 frames of 640x480, the windows of 8 frames of 2 cameras for 4 batches of 8."""

# A lock for each group would have to be removed again; with 256 locks, few threads wait for a group that they do not need.
_NUM_LOCKS = 256

# Largest part of the cache that the frames of one row may take from one group; more are rendered one by one as they are decoded, because
# every thread holds the frames of its row.
_ROW_SHARE = 4


_Group = tuple[int, dict[int, int]]
"""The packet at which decoding of a group starts, and the index of the frame of each requested packet, by packet."""


class _Held(NamedTuple):
    """A decoded picture with its size in memory."""

    picture: Any
    nbytes: int


class _ProcessState:
    """The frames and locks of one process."""

    def __init__(self, limit_bytes: int) -> None:
        self.frames: Recent[_Held] = Recent(limit_bytes)
        self.locks = [threading.Lock() for _ in range(_NUM_LOCKS)]


class FrameCache:
    """Decoded frames by video and packet, bounded in bytes; the least recently used ones are dropped first.

    A process that is forked or that unpickles the cache starts with an empty one. Any thread may use it.

    Args:
        limit_bytes: Largest size in bytes of all frames together; 0 keeps none.
    """

    def __init__(self, limit_bytes: int = FRAME_CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._state = PerProcess(partial(_ProcessState, limit_bytes))
        self._state.get()  # made here, because threads that make it at the same time would get different ones

    def __reduce__(self) -> tuple[type["FrameCache"], tuple[int]]:
        return FrameCache, (self.limit_bytes,)

    @property
    def held_bytes(self) -> int:
        """Size of all frames in the cache."""
        return self._state.get().frames.held_bytes

    def get(self, key: Hashable) -> Any:
        """Return the picture of a key; None if it is not in the cache."""
        held = self._state.get().frames.peek(key)
        return None if held is None else held.picture

    def put(self, key: Hashable, picture: Any) -> None:
        """Store a picture, an `av.VideoFrame` or an array, unless it alone exceeds the limit."""
        if isinstance(picture, np.ndarray):
            size_bytes = picture.nbytes
        else:
            size_bytes = sum(plane.buffer_size for plane in picture.planes)
        self._state.get().frames.get(key, lambda: _Held(picture, size_bytes))

    def lock(self, group: Hashable) -> threading.Lock:
        """Return the lock of a group of pictures, which a thread holds while it decodes the group."""
        return self._state.get().locks[hash(group) % _NUM_LOCKS]


class SharedVideo:
    """The frames that the rows of a step need from one video; any thread may read them.

    A group is the frames whose decoding starts at one keyframe. The first row that needs frames of a group that are not in the
    cache decodes the frames that all rows need from it, and stores them with those that are decoded on the way. A frame is
    stored only if it is undamaged when its group is decoded from the keyframe on. Decoded alone, it has the same pixels,
    because fewer packets are read then. So neither the cache nor damaged frames of other rows change the result.

    Args:
        cache: Stores the frames.
        key: Identity of the video file, with its version.
        info: Metadata of the video.
    """

    def __init__(self, cache: FrameCache, key: Hashable, info: VideoInfo) -> None:
        self._cache, self._key, self._info = cache, key, info
        self._known: dict[bytes, list[_Group]] = {}
        self._wanted: dict[int, set[int]] = defaultdict(set)
        # Groups that were decoded for all rows. If that fails, each row decodes its own frames.
        self._tried: set[int] = set()

    def want(self, frames: NDArray[np.int64]) -> None:
        """Announce the frames of a row, int64 [n]; all rows are announced before the first one is read."""
        self._known[frames.tobytes()] = groups = self._groups(frames)
        for start, group in groups:
            self._wanted[start].update(group)

    def read(self, data: Payload, frames: NDArray[np.int64]) -> Iterator[tuple[int, Any, bool]]:
        """Yield frames from the cache, or decode them for all rows.

        Args:
            data: The bytes of the video file.
            frames: int64 [n], the frames of a row.

        Yields:
            The index of each frame, its `av.VideoFrame`, and whether it was in the cache, in any order. Frames are left out if
            their group cannot be decoded for all rows together, or if the row needs too many frames of it.
        """
        waiting = deque(self._known.get(frames.tobytes()) or self._groups(frames))
        num_busy = 0  # groups passed over since one was read, because other threads decode them
        while waiting:
            start, group = waiting.popleft()
            lock = self._cache.lock((self._key, start))
            # Groups that other threads decode come last: the thread waits only if it has nothing else to do.
            if not lock.acquire(blocking=num_busy > len(waiting)):
                waiting.append((start, group))
                num_busy += 1
                continue
            num_busy = 0
            try:
                cached = {packet: self._cache.get((self._key, packet)) for packet in group}
                missing = [packet for packet, picture in cached.items() if picture is None]
                decoded = self._decode(data, start, group) if missing else {}
            finally:
                lock.release()
            for packet, frame in group.items():
                picture = decoded.get(packet) if cached[packet] is None else cached[packet]
                if picture is not None:
                    yield frame, picture, packet not in missing

    def _decode(self, data: Payload, start: int, group: dict[int, int]) -> dict[int, Any]:
        """Decode and store the frames of a group that rows need; return those of one row, by packet."""
        frame_bytes, limit = decoded_bytes(self._info), self._cache.limit_bytes
        if start in self._tried or len(group) * frame_bytes > limit // _ROW_SHARE:
            return {}
        self._tried.add(start)
        every = self._wanted[start] | set(group)
        # Frames of other rows would be dropped before they are used.
        if len(every) * frame_bytes > limit:
            every = set(group)
        decoded = {}
        # After an error each row decodes its own frames, so that only rows with the bad frame are bad.
        with suppress(DecodeError, UndecodableError):
            for packet, picture in decode_group(data, self._info, start, sorted(every)):
                self._cache.put((self._key, packet), picture)
                if packet in group:
                    decoded[packet] = picture
        return decoded

    def _groups(self, frames: NDArray[np.int64]) -> list[_Group]:
        """Return the groups that hold some frames, int64 [n]."""
        packets = self._info.frame_packets[frames]
        groups: dict[int, dict[int, int]] = defaultdict(dict)
        starts = first_packets(self._info, packets)
        for start, packet, frame in zip(
            starts.tolist(), packets.tolist(), frames.tolist(), strict=True
        ):
            groups[start][packet] = frame
        return [*groups.items()]
