"""Samples whose bytes nothing that happens to their files can take away."""

from dataclasses import replace

from readers.sample import BadSample, Sample, is_video_field
from readers.storage.blob.mapped import copied
from readers.storage.unreadable import reason_of


def copied_sample(sample: Sample) -> Sample | BadSample:
    """Copy what of a sample is views into mapped files, but videos; a BadSample where a file has shrunk.

    Who touches such a view after the file was cut is killed. Videos are too long for a copy, and are read by parts.
    """
    try:
        fields = {
            name: data if is_video_field(name) else copied(data)
            for name, data in sample.fields.items()
        }
    except OSError as error:
        reason = f"the file cannot be read: {reason_of(error)}"
        return BadSample(sample.index, sample.key, "read", reason)
    return replace(sample, fields=fields)
