"""Windows of frames of a LeRobot dataset, seen as clips: those of its cameras, one behind the other."""

from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dali_pipes.video.clips import OnDamagedVideo
from dali_pipes.video.parts import Part
from readers import BadSample
from readers.formats.lerobot.cameras import Camera, Shown
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.episodes import Place
from readers.sample import Payload, SourceError
from readers.video import VideoError, VideoInfo
from readers.video.frame_folder import FRAMES_CODEC


class Windows:
    """The pictures of a dataset's samples, as clips; see ClipSource. The video of a clip is its episode.

    Args:
        dataset: Chooses the frames.

    Attributes:
        num_frames: Pictures of a sample, of all cameras together.
        on_damaged_video: "raise".
        cameras: Which of these each camera's are.
        sizes: Height and width of the cameras, as meta/info.json tells them.
    """

    def __init__(self, dataset: LeRobotDataset) -> None:
        self._dataset = dataset
        counts = [dataset.num_frames[name] for name in dataset.cameras]
        stops = list(accumulate(counts))
        starts = [stop - count for stop, count in zip(stops, counts, strict=True)]
        columns = [slice(*pair) for pair in zip(starts, stops, strict=True)]
        self.num_frames = stops[-1]
        self.cameras = dict(zip(dataset.cameras, columns, strict=True))
        self.on_damaged_video: OnDamagedVideo = "raise"
        self._numbered = [
            (dataset.camera(number), columns[number]) for number in range(len(columns))
        ]
        self.sizes = {camera.size for camera, _ in self._numbered}

    def __reduce__(self) -> tuple[type["Windows"], tuple[LeRobotDataset]]:
        return Windows, (self._dataset,)

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The episode of each sample; see ClipSource."""
        return self._dataset.episodes_of(indices)

    def info(self, video: int) -> VideoInfo | VideoError:
        """The video of an episode's first camera; see ClipSource."""
        return self._numbered[0][0].info(self._dataset.episode(video))

    def parts(self, index: int) -> list[Part]:
        """See ClipSource."""
        place = self._dataset.place(index)
        return [self._part(camera, columns, place) for camera, columns in self._numbered]

    def choose(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        identities: NDArray[np.int64],
        speed: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The frames that the dataset says; nothing is drawn. See ClipSource."""
        del seed, epoch, identities, speed
        chosen = np.zeros((len(indices), self.num_frames), np.int64)
        for row, index in enumerate(indices.tolist()):
            place = self._dataset.place(index)
            for camera, columns in self._numbered:
                if (shown := _shown(camera, place)) is not None:
                    chosen[row, columns] = shown.frames
        return chosen

    def seconds(self, indices: NDArray[np.int64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """See ClipSource."""
        seconds = np.zeros(frames.shape)
        for row, index in enumerate(indices.tolist()):
            place = self._dataset.place(index)
            for camera, columns in self._numbered:
                info = camera.info(place)
                if not isinstance(info, VideoError):
                    seconds[row, columns] = info.seconds[frames[row, columns]]
        return seconds

    def fetch_frames(self, video: int, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """Read pictures of an episode's first camera; see ClipSource."""
        return self._numbered[0][0].pictures(self._dataset.episode(video), frames)

    def peculiar(self) -> dict[str, int]:
        """See ClipSource; nothing is peculiar where pictures lie in tables."""
        return self._dataset.videos.peculiar

    def _part(self, camera: Camera, columns: slice, place: Place) -> Part:
        info = camera.info(place)
        if isinstance(info, VideoError):
            raise info
        field = "" if info.codec == FRAMES_CODEC else f"{camera.name}.mp4"
        read = partial(camera.pictures, place)
        return Part(columns, camera.video(place), info, read, field, alone=True)


def _shown(camera: Camera, place: Place) -> Shown | None:
    """The pictures of a sample; None for one that is bad, which `fetch` says."""
    try:
        return camera.shown(place)
    except (VideoError, SourceError, OSError):
        return None
