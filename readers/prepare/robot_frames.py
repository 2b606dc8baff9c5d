"""Frames of LeRobot datasets, inspected: their pictures are frames of videos that hold many."""

from readers.formats.lerobot.dataset import LeRobotDataset
from readers.image.header import Header
from readers.prepare.checks import Checks
from readers.sample import BadSample, Sample, SourceError
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import VideoInfo


def own_sizes(sample: Sample) -> dict[str, int]:
    """Bytes by field, without the videos, which a sample shares with others."""
    return {name: len(data) for name, data in sample.fields.items() if not name.endswith(".mp4")}


def header_of(dataset: LeRobotDataset, sample: Sample) -> Header | None:
    """What a video says of the first camera's pictures; None where the tables hold pictures, which say it."""
    info = dataset.camera(0).info(dataset.place(sample.index))
    if not isinstance(info, VideoInfo) or info.codec == FRAMES_CODEC:
        return None
    return Header(info.codec, info.height, info.width, 1)


def check_pictures(dataset: LeRobotDataset, sample: Sample, checks: Checks) -> str:
    """Decode the pictures of all cameras, and return the error, "" if there is none."""
    place = dataset.place(sample.index)
    for number, name in enumerate(dataset.cameras):
        camera = dataset.camera(number)
        try:
            info, frames = camera.shown(place)
        except (VideoError, SourceError, OSError) as error:
            return f"{name}: {error}"
        if info.codec != FRAMES_CODEC:
            reasons = [checks.video(sample.fields[f"{name}.mp4"], info, frames)]
        else:
            found = camera.pictures(place, frames)
            reasons = [
                one.reason if isinstance(one, BadSample) else checks.image(one, camera.size)
                for one in found
            ]
        if any(reasons):
            return f"{name}: {next(filter(None, reasons))}"
    return ""
