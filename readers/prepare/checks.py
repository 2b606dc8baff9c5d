"""The decoders that `inspect` verifies with, passed in by the caller."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload
from readers.video.info import VideoInfo


class Checks(NamedTuple):
    """Two functions that decode and return an error text, "" if there is no error; see `dali_pipes.decode.check.CHECKS`.

    Attributes:
        image: Gets the bytes of an image and its (height, width).
        video: Gets the bytes of a video, what was found in it, and the numbers of the frames to decode, int64 [n].
    """

    image: Callable[[Payload, tuple[int, int]], str]
    video: Callable[[Payload, VideoInfo, NDArray[np.int64]], str]
