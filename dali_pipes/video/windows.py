"""Windows of frames of a LeRobot dataset as clips: the frames of its cameras, one camera after another."""

from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.clips import OnDamagedVideo
from dali_pipes.video.packets import Part
from readers.formats.lerobot.cameras import Camera
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.episodes import Place
from readers.sample import SourceError
from readers.video import VideoError
from readers.video.frame_folder import FRAMES_CODEC


class Windows:
    """The pictures of a LeRobot dataset's samples, as clips.

    Each sample is a clip of the pictures of all cameras; see ClipSource. The video of a clip is its episode.

    Args:
        dataset: The dataset, which chooses the frames.

    Attributes:
        num_frames: Count of pictures of a sample, over all cameras.
        on_damaged_video: Always "raise": clips with a damaged video are bad samples.
        cameras: For each camera's name, the range of its pictures among all pictures of a sample.
        sizes: Height and width of each camera, from meta/info.json.
    """

    def __init__(self, dataset: LeRobotDataset) -> None:
        self._dataset = dataset
        self.on_damaged_video: OnDamagedVideo = "raise"
        self.cameras: dict[str, slice] = {}
        self._columns: list[tuple[Camera, slice]] = []
        self.num_frames = 0
        for number, name in enumerate(dataset.cameras):
            start = self.num_frames
            self.num_frames += dataset.num_frames[name]
            self.cameras[name] = slice(start, self.num_frames)
            self._columns.append((dataset.camera(number), self.cameras[name]))
        self.sizes = {camera.size for camera, _ in self._columns}

    def __reduce__(self) -> tuple[type["Windows"], tuple[LeRobotDataset]]:
        return Windows, (self._dataset,)

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode of each sample."""
        return self._dataset.episodes_of(indices)

    def parts(self, index: int) -> list[Part]:
        """Return the parts of a clip, one per camera and video."""
        place = self._dataset.place(index)
        return [self._part(camera, columns, place) for camera, columns in self._columns]

    def choose(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        identities: NDArray[np.int64],
        speed: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the frames that the dataset chooses, without random numbers."""
        del seed, epoch, identities, speed
        chosen = np.full((len(indices), self.num_frames), -1)
        for row, index in enumerate(indices.tolist()):
            place = self._dataset.place(index)
            for camera, columns in self._columns:
                # -1 remains: the sample is bad already, or becomes bad later (its tables were evicted and could not be read again).
                with suppress(VideoError, SourceError, OSError):
                    chosen[row, columns] = camera.shown(place).frames
        return chosen

    def peculiar(self) -> dict[str, int]:
        """Return for each peculiarity how many videos have it; pictures in tables have no peculiarities."""
        return self._dataset.videos.peculiar

    def _part(self, camera: Camera, columns: slice, place: Place) -> Part:
        info = camera.info(place)
        if isinstance(info, VideoError):
            raise info
        field = "" if info.codec == FRAMES_CODEC else f"{camera.name}.mp4"
        read = partial(camera.pictures, place)
        return Part(columns, camera.video(place), info, read, field)
