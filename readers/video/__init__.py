"""Read encoded videos: find their files, scan them, and build an index of their frames."""

from readers.sample import VIDEO_FIELDS
from readers.video.containers.open import VideoError
from readers.video.files import ClipListDataset, VideoFolderDataset, read_seconds
from readers.video.frame_folder import FRAMES_CODEC, FrameFolderDataset
from readers.video.index import VideoIndex
from readers.video.info import HIDDEN, VideoInfo
from readers.video.packets import read_packets
from readers.video.scan import scan_video

__all__ = [
    "FRAMES_CODEC",
    "HIDDEN",
    "VIDEO_FIELDS",
    "ClipListDataset",
    "FrameFolderDataset",
    "VideoError",
    "VideoFolderDataset",
    "VideoIndex",
    "VideoInfo",
    "read_packets",
    "read_seconds",
    "scan_video",
]
