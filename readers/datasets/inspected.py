"""The facts that an inspection asks a dataset about a sample, and the functions that an inspection decodes with."""

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
        image: Decodes an image, given its bytes and its (height, width).
        damage: Looks for damage in an image that decodes without an error, given its bytes.
        video: Decodes frames of a video, given its bytes, its metadata and the indices of the frames, int64 [n].
        numbers: Decodes a picture with one number per pixel, such as a distance, given its bytes and its (height, width).
    """

    image: Callable[[Payload, tuple[int, int]], str]
    damage: Callable[[Payload], str]
    video: Callable[[Payload, "VideoInfo", NDArray[np.int64]], str]
    numbers: Callable[[Payload, tuple[int, int]], str]


class SampleFacts(NamedTuple):
    """Facts that a dataset knows about a sample. A fact that is None is found by reading the sample's image or video.

    Attributes:
        sizes: For each field, the number of stored bytes, without files that the sample shares with others.
        header: Header of the sample's picture, if it is not stored as the bytes of its image field.
        video: Metadata of the video that the sample's frames make, or the error that prevents it, if the video is not
            stored as the bytes of a field.
        error: Reason why the sample's pictures cannot be decoded, "" if they can.
    """

    sizes: dict[str, int]
    header: Header | None = None
    video: "VideoInfo | VideoError | None" = None
    error: str | None = None
