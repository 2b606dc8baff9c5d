"""What an inspection asks a dataset about one of its samples, and the functions that decode for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.image.header import Header
from readers.sample import Payload

if TYPE_CHECKING:
    from readers.video.containers.open import VideoError
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
    video: Callable[[Payload, "VideoInfo", NDArray[np.int64]], str]


class SampleFacts(NamedTuple):
    """Facts about a sample whose pictures are not, or not only, the bytes of its image field.

    Attributes:
        sizes: Stored bytes by field, without files that other samples share.
        header: Header of its picture; None if the bytes of its image or video have to tell.
        video: Metadata of the video that its pictures make, or why there is none; None if it is no such sample.
        error: Why its pictures cannot be decoded, "" if they can; None if the bytes of its image or video have to tell.
    """

    sizes: dict[str, int]
    header: Header | None = None
    video: "VideoInfo | VideoError | None" = None
    error: str | None = None
