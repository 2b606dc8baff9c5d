"""Class folders of videos of one frame, read back by torchvision's DatasetFolder."""

import io
from fractions import Fraction
from pathlib import Path

import av
from torchvision.datasets.folder import make_dataset

from tests.support.writers import Expected, Written
from tests.support.writers.folder import damage as damage

FORMAT = "video-folder"
CHECKED_AGAINST = "torchvision"
DECODED = True
HOLDS_VIDEOS = True


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "classes"
    for sample in samples:
        path = root / f"class-{sample.label}" / f"{sample.name}.avi"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_frame(path, sample.image)
    return root


def write_frame(path: Path, jpeg: bytes) -> None:
    """Write a video whose one frame is a JPEG."""
    with av.open(io.BytesIO(jpeg), format="jpeg_pipe") as still:
        size = still.streams.video[0].codec_context
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mjpeg", rate=25)
            stream.height, stream.width, stream.pix_fmt = size.height, size.width, "yuvj420p"
            packet = av.Packet(jpeg)
            packet.pts = packet.dts = 0
            packet.time_base, packet.stream = Fraction(1, 25), stream
            packet.is_keyframe = True
            container.mux(packet)


def expected(source: Path) -> list[Expected]:
    classes = {path.name: at for at, path in enumerate(sorted(source.iterdir()))}
    found = make_dataset(source, classes, extensions=(".avi",))
    return [
        Expected(str(Path(path).relative_to(source)), Path(path).read_bytes(), label)
        for path, label in found
    ]
