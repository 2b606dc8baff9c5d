"""What datasets give, in a form that tests compare."""

import json
from typing import Any

from readers import BadSample, Sample


def fetch_all(dataset: Any) -> list[Sample | BadSample]:
    """Return all samples of a dataset, good and bad."""
    return dataset.fetch(range(len(dataset)))


def fetch_samples(dataset: Any) -> list[Sample]:
    """Return all samples of a dataset, none of which is bad."""
    found = fetch_all(dataset)
    assert all(isinstance(one, Sample) for one in found), found
    return found


def json_of(entry: Any) -> Any:
    """Return what the field json of a sample holds."""
    assert isinstance(entry, Sample), entry
    return json.loads(bytes(entry.fields["json"]))


def numbers_of(dataset: Any, field: str = "id") -> list[int]:
    """Return the whole numbers that stand in a field of each sample."""
    return [int(bytes(sample.fields[field])) for sample in fetch_all(dataset)]
