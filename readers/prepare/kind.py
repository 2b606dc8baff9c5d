"""Whether data are videos or images."""

import re
from itertools import islice

from readers.first_samples import probed_samples
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.image.header import read_header
from readers.sample import Dataset, HeaderError, Sample, is_image_field, is_video_field
from readers.video.frame_folder import FrameFolderDataset

# MP4 and its kin (but not AVIF and HEIC), Matroska, AVI, Ogg, FLV, MPEG, WMV.
_VIDEO = re.compile(
    rb"....ftyp(?!avi|hei|hev|mif|msf)|....(?:moov|mdat|wide|free|skip)|\x1aE\xdf\xa3|RIFF....AVI |OggS|FLV\x01"
    rb"|\0\0\x01[\xb3\xba]|0&\xb2u",
    re.DOTALL,
)


def is_video(sample: Sample) -> bool:
    """Whether a sample is a video: the names of its fields say so or, of columns of other names, the bytes."""
    named = sample.image_field
    if named is None or named not in sample.fields:
        return sample.image is None and sample.video is not None
    if is_image_field(named) or is_video_field(named):
        return not is_image_field(named)
    try:
        read_header(sample.fields[named])
    except HeaderError:
        return _VIDEO.match(bytes(sample.fields[named][:16])) is not None
    return False


def holds_videos(dataset: Dataset) -> bool:
    """Whether the data are videos, or folders of frames: the first sample that can be read says so.

    Frames of LeRobot datasets are none, though a video holds them.
    """
    if isinstance(dataset, FrameFolderDataset):
        return True
    if isinstance(dataset, LeRobotDataset):
        return False
    return any(is_video(sample) for sample in islice(probed_samples(dataset), 1))
