"""One frame of a video, to be shown for all of it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench.report.thumbnails import Thumbnail, thumbnail_of, thumbnail_of_file
from dali_pipes.errors import DecodeError, told
from readers import BadSample, ReadersError, Sample
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.sample import Dataset
from readers.video import VideoError, VideoInfo
from readers.video.frame_folder import FrameFolderDataset


def first_frame(dataset: Dataset | TarStream, sample: Sample) -> Thumbnail:
    """Draw the first frame of a video; of a robot's sample the frame that it is, by the first camera.

    Args:
        dataset: Where the sample is from.
        sample: With a video, or a folder of frames.
    """
    try:
        if isinstance(dataset, FrameFolderDataset):
            [picture] = dataset.fetch_frames(sample.index, [0])
            if isinstance(picture, BadSample):
                return Thumbnail(fault=picture.reason)
            return thumbnail_of_file(picture)
        data = sample.video
        if data is None:
            return Thumbnail(fault="it has no video")
        info, frame = _frame_of(dataset, sample)
        return thumbnail_of(Image.fromarray(_decoded(bytes(data), info, frame)))
    except (VideoError, DecodeError, ReadersError, OSError) as error:
        return Thumbnail(fault=told(error))


def _frame_of(dataset: Dataset | TarStream, sample: Sample) -> tuple[VideoInfo, int]:
    from readers.video.scan import scan_video

    if isinstance(dataset, LeRobotDataset):
        info, frames = dataset.camera(0).shown(dataset.place(sample.index))
        return info, int(frames[-1])
    assert sample.video is not None
    return scan_video(sample.video), 0


def _decoded(data: bytes, info: VideoInfo, frame: int) -> NDArray[np.uint8]:
    from dali_pipes.video.decode import decode_frames

    return decode_frames(data, info, np.array([frame]))[frame]
