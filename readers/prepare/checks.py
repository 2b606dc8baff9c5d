"""The decoders that `inspect` verifies with, passed in by the caller."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload
from readers.video.info import VideoInfo


class Checks(NamedTuple):
    """Functions that decode and return an error text, "" if there is no error; see `dali_pipes.decode.check.CHECKS`.

    Attributes:
        image: Gets the bytes of an image and its (height, width).
        damage: Gets the bytes of an image that decodes, and says what is damaged in it all the same.
        video: Gets the bytes of a video, what was found in it, and the numbers of the frames to decode, int64 [n].
    """

    image: Callable[[Payload, tuple[int, int]], str]
    damage: Callable[[Payload], str]
    video: Callable[[Payload, VideoInfo, NDArray[np.int64]], str]
