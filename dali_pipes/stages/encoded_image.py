"""Find the encoded image of a sample, and read its size from the header."""

from contextlib import suppress

from readers import BadSample, HeaderError, Sample, read_header
from readers.image.kinds import HEAD_BYTES, kind_of, not_video
from readers.sample import Payload, is_video_field
from readers.storage.blob.mapped import copied
from readers.video.frame_folder import FRAMES_CODEC

VIDEOS_NEED_CLIPS = "videos need Clips: give the Loader Clips(dataset, num_frames=..., stride=...)"


def image_of(
    sample: Sample, *, max_pixels: int, of_clips: bool
) -> tuple[Payload, tuple[int, int]] | BadSample:
    """Return the encoded image of a sample with its height and width, or a BadSample with the reason.

    Args:
        sample: The sample as stored.
        max_pixels: Images with more pixels are bad samples.
        of_clips: Whether the dataset is one of video clips, so that a video is expected instead of an image.
    """
    data = sample.image
    if data is None:
        return BadSample(sample.index, sample.key, "read", why_no_image(sample))
    size = sample.size
    if size is None:
        try:
            header = read_header(data)
        except HeaderError as error:
            reason = (
                f"{error}; {VIDEOS_NEED_CLIPS}"
                if not of_clips and _is_video(sample, data)
                else str(error)
            )
            return BadSample(sample.index, sample.key, "header", reason)
        size = (header.height, header.width)
    if size[0] * size[1] > max_pixels:
        reason = f"{size[0]}x{size[1]} pixels, more than max_pixels={max_pixels}"
        return BadSample(sample.index, sample.key, "header", reason)
    return data, size


def _is_video(sample: Sample, data: Payload) -> bool:
    """Return whether a sample's data is a video, judged by its first bytes or else by the name of its field."""
    kind = kind_of(data)
    if kind is not None:
        return kind.family == "video"
    field = sample.image_field
    return field is not None and (field == FRAMES_CODEC or is_video_field(field))


def why_no_image(sample: Sample) -> str:
    """Return why a sample has no image field, judged by the contents of its fields as well as their names."""
    for name, data in sample.fields.items():
        # A mapped file was truncated; the field does not hold bytes.
        with suppress(OSError, TypeError):
            head = copied(data[:HEAD_BYTES])
            kind, named_video = kind_of(head), name == sample.video_field and not_video(head)
            if named_video or (kind is not None and kind.family == "picture"):
                return f"the field {name} is {named_video or (kind and kind.reason)}"
    reason = f"no image field; its fields: {', '.join(sample.fields) or 'none'}"
    return reason if sample.video is None else f"{reason}; {VIDEOS_NEED_CLIPS}"
