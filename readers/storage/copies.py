"""Copy samples, so that they stay valid when their files are shortened."""

from collections.abc import Callable
from dataclasses import replace

from readers.sample import BadSample, Sample, is_image_field, is_video_field
from readers.storage.blob.mapped import copied, mapped_file
from readers.storage.limits import check_bytes
from readers.storage.unreadable import is_transient, reason_of


def copied_sample(sample: Sample, reads: Callable[[str], bool] | None = None) -> Sample | BadSample:
    """Return a sample with copies in place of views into mapped files, or a BadSample if a file has shrunk or is unreadable.

    Accessing such a view after the file has shrunk would kill the process. Videos remain views: they are too long for a copy,
    and are read in parts.

    Args:
        sample: The sample.
        reads: Returns whether a field other than the image will be read, given its name; fields that will not be read remain
            views. An image with restart intervals remains a view, too, since only a part is decoded: only the length of its
            file is checked. None copies all fields except videos.
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
