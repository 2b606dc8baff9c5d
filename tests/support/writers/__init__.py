"""One module per format that writes samples with the format's own library, for tests/readers/formats/test_formats.py.

Each module has

    FORMAT     name of the format, as in readers.formats.registry
    CHECKED_AGAINST  the package that what we read is compared with, "-" where there is none
    write(folder, samples) -> Any
               writes the samples and returns what `open_dataset` is given; skips with
               pytest.importorskip where its library is missing
    expected(source) -> list[Expected]
               what the format's own library reads back, in stored order
    damage(source) -> Any
               makes exactly one sample in the middle unreadable or foreign, and returns the source
               (leave it out where the format cannot lose one sample)
    write_plain(folder, samples) -> Any
               as write, in the way whose payloads can be views, where write does not
    DECODED    True where a sample's image is not the file that was written
    HOLDS_VIDEOS  True where samples are videos of one picture, loaded as clips
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """A sample to write: a JPEG, its class and a name without folder or extension."""

    name: str
    image: bytes
    label: int


@dataclass(frozen=True)
class Expected:
    """A sample as the format's own library gives it; the key may be what our reader makes of its place."""

    key: str
    image: bytes
    label: int
