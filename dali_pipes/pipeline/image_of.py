"""The encoded image of a sample and its size, as far as they can be told without decoding it."""

from readers import BadSample, HeaderError, Sample, read_header
from readers.sample import Payload

_CLIPS = "videos need Clips: give the Loader Clips(dataset, num_frames=..., stride=...)"


def image_of(
    sample: Sample, *, max_pixels: int, of_clips: bool
) -> tuple[Payload, tuple[int, int]] | BadSample:
    """Return the encoded image of a sample with its height and width, or why it is bad.

    Args:
        sample: As it is stored.
        max_pixels: Larger images count as bad.
        of_clips: Whether videos are expected.
    """
    data = sample.image
    if data is None:
        return BadSample(sample.index, sample.key, "read", _why_none(sample))
    size = sample.size
    if size is None:
        try:
            header = read_header(data)
        except HeaderError as error:
            named = sample.image_field  # a video where the format says that it is one
            is_video = not of_clips and named is not None and named == sample.video_field
            reason = f"{error}; {_CLIPS}" if is_video else str(error)
            return BadSample(sample.index, sample.key, "header", reason)
        size = (header.height, header.width)
    if size[0] * size[1] > max_pixels:
        reason = f"{size[0]}x{size[1]} pixels, more than max_pixels={max_pixels}"
        return BadSample(sample.index, sample.key, "header", reason)
    return data, size


def _why_none(sample: Sample) -> str:
    reason = f"no image field; its fields: {', '.join(sample.fields) or 'none'}"
    return reason if sample.video is None else f"{reason}; {_CLIPS}"
