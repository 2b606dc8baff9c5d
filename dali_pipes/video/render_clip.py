"""The decode stage of clips on the CPU: render each frame on the canvases of all views, and then release it.

Only the part of a frame that the crops show is converted and resized.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.decode.stored import read_layer
from dali_pipes.errors import DecodeError
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, needed_part
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.video.color import to_rgb
from dali_pipes.video.decode import read_frames, read_readable
from dali_pipes.video.depth import frame_metres, scale_nearest
from dali_pipes.video.frame_cache import SharedVideo
from dali_pipes.video.packets import Part
from dali_pipes.video.source import NO_CAMERA, frame_columns
from gpu_aug import Draws
from gpu_aug.resampling.crop_and_resize import resize_on_canvas
from gpu_aug.resampling.crops import cuts_of
from readers import BadSample
from readers.formats.lerobot.depth import DepthCodes
from readers.sample import Payload
from readers.storage.blob.mapped import file_version
from readers.video import VideoError, VideoInfo
from readers.video.frame_folder import FRAMES_CODEC

Picture = Any
"""An `av.VideoFrame` as stored, or uint8 [height, width, 3]; or float32 [height, width], distances in metres."""


class ClipRenderer:
    """Renders the canvases of a step of clips; see threads.Render. Clips share decoded frames, also those of earlier steps.

    Args:
        fetcher: Records clips that cannot be decoded, and chooses their substitutes.
        fetched: The step.
        rows: The rows to render; None means all.
    """

    def __init__(
        self, fetcher: Fetcher, fetched: Fetched, rows: Sequence[int] | None = None
    ) -> None:
        assert fetcher.clips is not None
        self._fetcher, self._clips = fetcher, fetcher.clips
        self._videos: dict[Hashable, SharedVideo] = {}
        self._step = object()  # not the renderer, which keys in the cache would keep alive
        for row in range(len(fetched)) if rows is None else rows:
            if fetched.data[row] is not None:
                # After an error the row announces no frames; `render` meets the same error, and replaces the row.
                with suppress(DecodeError):
                    for part in self._parts(fetched, row):
                        if part.info.codec != FRAMES_CODEC:
                            video, _ = self._video(fetched, row, part)
                            video.want(np.unique(fetched.frames[row, part.columns]))

    def __call__(self, fetched: Fetched, canvases: Canvases, _start: int) -> Decoded:
        """Render consecutive rows of the step."""
        rows, targets = fetched, []
        for row in range(len(fetched)):
            one, of_row = self.render(fetched, row, canvases, row)
            targets.append(of_row)
            if one is not fetched:
                rows = rows.replaced(row, one)
        return Decoded(rows, targets)

    def render(
        self, fetched: Fetched, of_row: int, canvases: Canvases, row: int
    ) -> tuple[Fetched, SampleTargets]:
        """Render a clip, or its substitute if it cannot be decoded.

        Args:
            fetched: Rows that include the clip.
            of_row: Index of the clip's row in `fetched`.
            canvases: Canvases to render on.
            row: Index of the clip's row in `canvases`.

        Returns:
            `fetched` or, for a damaged clip, a one-row step that replaces it; and the targets of the row: float32 [D, height,
            width] of its depth cameras, in the size of the first view's pictures.
        """
        first = self._clips.num_frames
        num_depths = frame_columns(self._clips) - first
        while fetched.data[of_row] is not None:
            held: dict[int, int] = {}
            # NaN remains where the dataset of the clip lacks a depth camera.
            size = _pair(fetched.draws[0].sizes[of_row])
            depths = np.full((num_depths, *size), np.nan, np.float32)
            try:
                for part in self._parts(fetched, of_row):
                    decoded = self._decode(fetched, of_row, part, held)
                    with _naming_source(part):
                        if part.depth is None:
                            self._render_part(decoded, part, fetched, of_row, canvases, row)
                        else:
                            own = depths[part.columns.start - first : part.columns.stop - first]
                            frames = fetched.frames[of_row, part.columns]
                            _write_depths(decoded, part, part.depth, frames, own)
                absent = np.flatnonzero(fetched.frames[of_row] == NO_CAMERA)
                canvases.blacken(row, fetched.draws, of_row, absent.tolist())
                if held:
                    fetched = self._fetcher.record_damage(fetched, of_row, held, len(part.info))
                maps = SampleTargets(maps=depths) if num_depths else NO_TARGETS
                return fetched, maps
            except DecodeError as error:
                fetched, of_row = self._fetcher.replace_row(fetched, of_row, error), 0
        canvases.blacken(row, fetched.draws, of_row)
        return fetched, NO_TARGETS

    def _render_part(
        self,
        pictures: Iterable[tuple[int, Picture]],
        part: Part,
        fetched: Fetched,
        of_row: int,
        canvases: Canvases,
        row: int,
    ) -> None:
        """Render frames in the order in which they are decoded; a frame that occurs several times in a clip is copied."""
        columns = np.arange(fetched.frames.shape[1])[part.columns]
        size, views = (part.info.height, part.info.width), canvases.views_with(int(columns[0]))
        stencil = Stencil(*self._fetcher.drawn_for(fetched, of_row, size, views), part.info)
        frames = fetched.frames[of_row, part.columns]
        for frame, picture in pictures:
            first, *others = columns[frames == frame].tolist()
            rendered = canvases.of(row, fetched.draws, of_row, first)
            stencil.render(picture, rendered)
            for number in others:
                copies = canvases.of(row, fetched.draws, of_row, number)
                for copy, canvas in zip(copies, rendered, strict=True):
                    copy.copy_(canvas)

    def _decode(
        self, fetched: Fetched, row: int, part: Part, held: dict[int, int]
    ) -> Iterator[tuple[int, Picture]]:
        """Yield the index and picture of the frames of a part: from the cache, else decoded.

        Args:
            fetched: Rows that include the clip.
            row: Index of the clip's row in `fetched`.
            part: The part of the clip.
            held: Receives the replacements of undecodable frames, for datasets that allow them; see `read_readable`.
        """
        frames = np.unique(fetched.frames[row, part.columns])
        shared = self._shared_pictures(fetched, row, part, frames)
        left, num_cached = dict.fromkeys(frames.tolist()), 0
        for frame, picture, was_cached in shared:
            num_cached += was_cached
            del left[frame]
            yield frame, picture
        self._fetcher.recorder.count_frames(num_cached, len(frames) - num_cached)
        if not left:
            return
        frames = np.array([*left])
        if part.info.codec == FRAMES_CODEC:
            key, cache = self._key(part, None), self._fetcher.frame_cache
            for frame, picture in read_pictures(part, frames):
                cache.put((key, frame), picture)
                yield frame, picture
        elif self._clips.on_damaged_video == "truncate":
            yield from read_readable(_payload(fetched, row, part), part.info, frames, held)
        else:
            yield from read_frames(_payload(fetched, row, part), part.info, frames)

    def _shared_pictures(
        self, fetched: Fetched, row: int, part: Part, frames: NDArray[np.int64]
    ) -> Iterator[tuple[int, Picture, bool]]:
        """Yield index and picture of frames that rows share, and whether each was in the cache."""
        if part.info.codec != FRAMES_CODEC:
            video, data = self._video(fetched, row, part)
            yield from video.read(data, frames)
            return
        key = self._key(part, None)
        for frame in frames.tolist():
            if (picture := self._fetcher.frame_cache.get((key, frame))) is not None:
                yield frame, picture, True

    def _video(self, fetched: Fetched, row: int, part: Part) -> tuple[SharedVideo, Payload]:
        """Return the video of a part, with the bytes of its file."""
        data = _payload(fetched, row, part)
        key = self._key(part, file_version(data))
        video = SharedVideo(self._fetcher.frame_cache, key, part.info)
        return self._videos.setdefault(key, video), data

    def _key(self, part: Part, version: Hashable) -> Hashable:
        """Return the identity of a video; with None as the version of its file, one that is only valid in this step."""
        return part.columns.start, part.video, self._step if version is None else version

    def _parts(self, fetched: Fetched, row: int) -> list[Part]:
        """Return the parts of a row's clip.

        Raises:
            DecodeError: A video cannot be read.
        """
        try:
            return self._clips.parts(int(fetched.indices[row]))
        except VideoError as error:
            raise DecodeError(str(error)) from error


def _payload(fetched: Fetched, row: int, part: Part) -> Payload:
    """Return the bytes of the video file of a part."""
    sample, data = fetched.samples[row], fetched.data[row]
    assert sample is not None
    assert data is not None
    return sample.fields[part.field] if part.field else data


@contextmanager
def _naming_source(part: Part) -> Iterator[None]:
    """Name the file or camera in errors of the with block, because a sample may have several cameras."""
    try:
        yield
    except DecodeError as error:
        raise DecodeError(f"{part.source}: {error}" if part.source else str(error)) from error


def read_pictures(part: Part, frames: NDArray[np.int64]) -> Iterator[tuple[int, Picture]]:
    """Yield the index and picture of frames that are separate files; of a depth camera, the distances."""
    info = part.info
    for frame, content in zip(frames.tolist(), part.read(frames), strict=True):
        if isinstance(content, BadSample):
            raise DecodeError(f"frame {frame} of {len(info)}: {content.reason}")
        try:
            size = info.height, info.width
            if part.depth is not None:
                yield frame, part.depth.from_numbers(read_layer(content, size))
            else:
                yield frame, opencv.decode(content, size)
        except DecodeError as error:
            raise DecodeError(f"frame {frame} of {len(info)}: {error}") from error


def _write_depths(
    pictures: Iterable[tuple[int, Picture]],
    part: Part,
    codes: DepthCodes,
    frames: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Write the distances of a depth camera for the frames of a clip.

    Args:
        pictures: Index and picture of each frame, in any order.
        part: The part of the clip.
        codes: The meaning of the luma of videos.
        frames: int64 [T], the frames.
        out: float32 [T, height, width], in metres, with the size of the first view's pictures; written.
    """
    for frame, picture in pictures:
        is_still = isinstance(picture, np.ndarray)
        metres = picture if is_still else frame_metres(picture, part.info, codes)
        out[frames == frame] = scale_nearest(metres, out.shape[1:])


class Stencil:
    """Renders frames of a clip to canvases, with the crops of the clip's row, which all its frames have in common.

    Args:
        draws: The draws of each view that shows the frames.
        row: Index of the row in `draws`.
        info: Metadata of the video.
    """

    def __init__(self, draws: Sequence[Draws], row: int, info: VideoInfo) -> None:
        starts, shapes = needed_part(draws)
        self._draws, self._row, self._info = draws, row, info
        self._start, self._shape = _pair(starts[row]), _pair(shapes[row])
        [cut] = cuts_of(draws[0].crops, row, row + 1)
        # The canvas is the crop: it is written without a copy in between.
        self._is_plain = cut.is_plain and len(draws) == 1

    def render(self, picture: Picture, canvases: Sequence[torch.Tensor]) -> None:
        """Render the canvas of each view from a frame.

        Args:
            picture: The frame; an `av.VideoFrame` is turned upright.
            canvases: uint8 [canvas height, canvas width, 3] for each view, overwritten.
        """
        (top, left), (height, width) = self._start, self._shape
        out = canvases[0].numpy() if self._is_plain else None
        if isinstance(picture, np.ndarray):
            part = picture[top : top + height, left : left + width]
        else:
            part = to_rgb(picture, self._info, (top, left, height, width), out)
        if out is not None:
            if part is not out:
                out[...] = part
            return
        for drawn, canvas in zip(self._draws, canvases, strict=True):
            crops, row = drawn.crops, self._row
            (top, left), (height, width) = (
                _pair(crops.start[row] - np.array(self._start)),
                _pair(crops.shape[row]),
            )
            cut = part[top : top + height, left : left + width]
            resize, paste = _pair(crops.resize[row]), _pair(crops.paste[row])
            resize_on_canvas(cut, resize, paste, canvas.numpy(), antialias=crops.antialias)


def _pair(values: NDArray[Any]) -> tuple[int, int]:
    return int(values[0]), int(values[1])
