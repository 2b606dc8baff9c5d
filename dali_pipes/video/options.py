"""A loader's options that mean something else for clips, or nothing."""

from dali_pipes.errors import LoaderError
from dali_pipes.video.dali_support import LIBAVCODEC, NVDEC
from dali_pipes.video.source import ClipSource
from readers.video import VideoInfo
from readers.video.frame_folder import FRAMES_CODEC


def require_fits(clips: ClipSource | None, *, targets: object, decode: str) -> None:
    """Refuse what cannot be done with clips.

    Args:
        clips: None where samples are images, which can have it all.
        targets: As for Loader.
        decode: As for Loader.

    Raises:
        LoaderError: Targets are asked for by name, or decoding at a smaller size.
    """
    if clips is None:
        return
    if targets != "auto" and targets:
        raise LoaderError(
            f"targets={targets!r} is not supported for clips, whose masks, boxes and keypoints would differ from "
            f'frame to frame; use targets=[] or "auto", which takes none, and read them by batch.keys'
        )
    if decode == "fast":
        raise LoaderError(
            'decode="fast" is not supported for clips: videos cannot be decoded at a smaller size; use '
            'decode="exact"'
        )


def describe(clips: ClipSource, decoder: str, *, on_gpu: bool) -> str:
    """Say who decodes the frames of clips, in one line."""
    first = clips.info(0)
    if isinstance(first, VideoInfo) and first.codec == FRAMES_CODEC:
        return "frames: files of their own, decoded as images on the CPU"
    if decoder == "cpu":
        return "frames: decoded by FFmpeg on the CPU"
    codecs = ", ".join(NVDEC if on_gpu else LIBAVCODEC)
    place = "on NVDEC" if on_gpu else "on the CPU"
    return f"frames: {codecs} decoded by DALI {place}; what it does not take, by FFmpeg on the CPU"
