"""Copies of samples that stay valid when their files change."""

from collections.abc import Callable
from dataclasses import replace

from readers.sample import BadSample, Sample, is_image_field, is_video_field
from readers.storage.blob.mapped import copied, mapped_file
from readers.storage.limits import check_bytes
from readers.storage.unreadable import is_transient, reason_of


def copied_sample(sample: Sample, reads: Callable[[str], bool] | None = None) -> Sample | BadSample:
    """Copy what of a sample is views into mapped files, but videos; a BadSample where a file has shrunk.

    Who touches such a view after the file was cut is killed. Videos are too long for a copy, and are read by parts.

    Args:
        sample: What is stored.
        reads: Tells which fields beside the image will be read; the others stay views, and so does an image in
            restart intervals, of which a part is decoded: its file is only looked at. None copies all.
    """
    image = sample.image_field or next(filter(is_image_field, sample.fields), None)
    copies = {}
    try:
        for name, data in sample.fields.items():
            if not isinstance(data, memoryview) or is_video_field(name):
                continue
            if reads is not None and name == image and sample.restarts is not None:
                check_bytes(len(data), "it")
                if (file := mapped_file(data)) is not None:
                    file.check()
            elif reads is None or name == image or reads(name):
                copies[name] = copied(data)
    except OSError as error:
        reason = f"the file cannot be read: {reason_of(error)}"
        return BadSample(sample.index, sample.key, "read", reason, transient=is_transient(error))
    return replace(sample, fields={**sample.fields, **copies}) if copies else sample
