"""Videos as encoded bytes: where they lie, and an index that says which frames they hold."""

from readers.video.files import VIDEO_FIELDS, ClipListDataset, VideoFolderDataset
from readers.video.info import VideoInfo
from readers.video.scan import VideoError, scan_video

__all__ = [
    "VIDEO_FIELDS",
    "ClipListDataset",
    "VideoError",
    "VideoFolderDataset",
    "VideoInfo",
    "scan_video",
]
