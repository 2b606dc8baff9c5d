"""A look at a dataset on two machines: whether a worker reads there what the training process reads here."""

import hashlib
import platform
from dataclasses import dataclass

from dali_pipes.errors import ClusterError
from readers import BadSample, Dataset, Sample
from readers.storage.copies import copied_sample

_LARGEST_BYTES = 1 << 20  # of a field, that are looked at: videos are long


@dataclass(frozen=True, slots=True)
class Probe:
    """What is read of some samples.

    Attributes:
        length: Samples of the dataset.
        digests: By index what a sample's fields hold, None where it cannot be read.
        keys: Their names for people.
    """

    length: int
    digests: dict[int, str | None]
    keys: dict[int, str]


def probe(dataset: Dataset) -> Probe:
    """Look at the first, the middle and the last sample of a dataset."""
    length = len(dataset)
    digests: dict[int, str | None] = {}
    keys: dict[int, str] = {}
    for index in sorted({0, length // 2, length - 1}):
        try:
            [sample] = dataset.fetch([index])
        except Exception:  # noqa: BLE001 - the loop that wants this sample raises it
            continue
        digests[index], keys[index] = _digest(sample), sample.key
    return Probe(length, digests, keys)


def require_probe(dataset: Dataset, expected: Probe) -> None:
    """Refuse a dataset that is another one here, or cannot be read.

    Raises:
        ClusterError: Names this machine, the sample and what is wrong with it.
    """
    here = f"the worker on {platform.node()}"
    advice = "give paths or URLs that every machine of the cluster can reach, with the same data"
    if len(dataset) != expected.length:
        raise ClusterError(
            f"{here} finds {len(dataset)} samples in the dataset instead of {expected.length}: {advice}"
        )
    for index, digest in expected.digests.items():
        key = expected.keys[index]
        try:
            [sample] = dataset.fetch([index])
        except Exception as error:
            raise ClusterError(
                f"{here} cannot read {key} ({type(error).__name__}: {error}): {advice}"
            ) from error
        if digest is not None and isinstance(sample, BadSample):
            raise ClusterError(f"{here} cannot read {key} ({sample.reason}): {advice}")
        if digest not in (None, _digest(sample)):
            raise ClusterError(f"{here} reads other data as {key}: {advice}")


def _digest(sample: Sample | BadSample) -> str | None:
    """A digest of the fields of a sample; None of one that cannot be read."""
    copy = sample if isinstance(sample, BadSample) else copied_sample(sample)
    if isinstance(copy, BadSample):
        return None
    digest = hashlib.sha256()
    for name, data in copy.fields.items():
        digest.update(f"{name} {len(data)}\n".encode() + bytes(data[:_LARGEST_BYTES]))
    return digest.hexdigest()
