"""Find the samples of a dataset that decode."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch

from dali_pipes.errors import DecodeError
from dali_pipes.loader import Loader
from dali_pipes.preview.pictures import decode_original
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.stages.encoded_image import why_no_image
from dali_pipes.video.clips import Clips
from gpu_aug import CenterCrop, Recipe
from readers import BadSample, Dataset, HeaderError, Sample
from readers.cores import usable_cores

ONE_RGB = ImageFields()

_SIDE = 16  # pixels of frames: few, because only decoding is checked
_BATCH_SIZE = 8  # clips: enough for the threads, and little memory


def take_decodable_samples(
    dataset: Dataset, *, most: int, images: ImageFields = ONE_RGB
) -> tuple[list[Sample], list[str]]:
    """Take samples that are spread evenly over a dataset, and decode them.

    Args:
        dataset: Images.
        most: Largest number of samples.
        images: The fields and the kind of the images.

    Returns:
        The samples that decode, and a sentence about each of the others.
    """
    count = min(len(dataset), most)
    samples = dataset.fetch([number * len(dataset) // count for number in range(count)])
    with ThreadPoolExecutor(usable_cores()) as pool:
        faults = list(pool.map(partial(_fault, images=images), samples))
    judged = list(zip(samples, faults, strict=True))
    sound = [sample for sample, fault in judged if isinstance(sample, Sample) and not fault]
    left_out = [
        f"{sample.key}: {fault}"
        for sample, fault in judged
        if isinstance(sample, BadSample) or fault
    ]
    return sound, left_out


def find_decodable_videos(clips: Clips) -> tuple[list[int], list[str]]:
    """Decode all clips of a dataset.

    Args:
        clips: At least one clip of each video.

    Returns:
        The numbers of the videos whose clips all decode, and a sentence about each of the others.
    """
    with Loader(
        clips,
        Recipe([CenterCrop(_SIDE)]),
        batch_size=_BATCH_SIZE,
        device="cpu",
        decoder="cpu",
        shuffle="none",
        last_batch="partial",
        dtype=torch.uint8,
        on_bad_sample="skip",
        max_bad_samples=len(clips),
    ) as loader:
        for _ in loader:
            pass
        undecodable = [record for record in loader.bad_samples if not record.kept]
    videos = clips.videos(np.array([record.index for record in undecodable], np.int64))
    faults = {
        video: f"{record.key.rpartition('#')[0]}: {record.reason}"
        for video, record in zip(videos.tolist(), undecodable, strict=True)
    }
    sound = [video for video in range(len(clips.dataset)) if video not in faults]
    return sound, [faults[video] for video in sorted(faults)]


def _fault(sample: Sample | BadSample, images: ImageFields) -> str:
    """Return what is wrong with a sample; "" if it decodes."""
    if isinstance(sample, BadSample):
        return sample.reason
    if missing := images.missing(sample):
        return missing
    if not images.fields and sample.image is None:
        return why_no_image(sample)
    try:
        for payload in images.payloads(sample).values():
            decode_original(payload, images)
    except (HeaderError, DecodeError) as error:
        return str(error)
    return ""
