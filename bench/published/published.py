"""List the published benchmarks that can be rerun here, and run one, for `gpu-aug bench published`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name

from rich.console import Console

from bench.baselines.peers.catalog import PEERS, install_peers, is_ready, pinned_versions, why_not
from bench.micro.micro import RunSettings, measure_and_show
from bench.output.errors import BenchError, choose
from bench.output.text import print_line
from dali_pipes.machine.description import machine, versions

# Any number does: it only makes two runs of one command measure in the same order.
_ORDER_SEED = 0


@dataclass(frozen=True)
class Published:
    """A benchmark that others published.

    Attributes:
        name: Its name on the command line.
        module: The module that rebuilds it, with a caption `MEANING` and a function `rows(task)` that yields each `Row`.
        source: Title, address or number, and version of the original.
        protocol: Version of our rebuilding; increased when numbers stop being comparable with earlier ones.
        deviation: One sentence: what is measured, and how this run differs from the original.
        packages: Distributions of the contestants that are installed beside gpu-aug.
        peers: Keys of `PEERS`: contestants in environments of their own.
        reads_data: Whether photographs are measured; otherwise random images are.
    """

    name: str
    module: str
    source: str
    protocol: int
    deviation: str
    packages: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    reads_data: bool = True

    def versions(self) -> dict[str, str]:
        """Return the versions of Python and of the contestants' packages that are installed here, by name."""
        found = versions([*self.packages, *(PEERS[name].distribution for name in self.peers)])
        for name in self.peers:
            if not why_not(name):
                found |= pinned_versions(name)
        return found


_ALL: tuple[Published, ...] = (
    Published(
        "imread",
        "bench.published.imread",
        "Choosing a JPEG Decoder for PyTorch DataLoaders, arXiv 2605.08731, github.com/ternaus/imread_benchmark",
        1,
        "JPEG bytes in memory to RGB arrays on one thread and in a DataLoader; the original took 2,000 files, several "
        "processors and worker counts, this run takes few files, this machine and one count of workers.",
        packages=("pillow", "opencv-python-headless", "torchvision", "torch"),
        peers=("imread", "tensorflow"),
    ),
    Published(
        "spdl",
        "bench.published.spdl",
        "SPDL, github.com/facebookresearch/spdl, examples/multi_thread_preprocessing.py",
        1,
        "JPEG files to uint8 batches of 224 x 224, the example's second step (decoding, resizing and batching); the original "
        "varies the threads on ImageNet, this run has one thread per core and few files.",
        packages=("pillow", "torchvision", "torch"),
        peers=("spdl",),
    ),
    Published(
        "grain",
        "bench.published.grain",
        "Grain, github.com/google/grain, docs/tutorials/data_loader_tutorial.md",
        1,
        "JPEG files to uint8 batches of 224 x 224, the guide's resizing and crop; the guide has no numbers, reads TensorFlow "
        "Datasets with no worker and makes no batches, this run reads files with one worker per core and batches of 32.",
        packages=("opencv-python-headless",),
        peers=("grain",),
    ),
    Published(
        "albumentations-images",
        "bench.published.albumentations_images",
        "AlbumentationsX documentation, Image Benchmark Results, RGB micro benchmark (albumentations.ai/docs/benchmarks/image-benchmarks, "
        "repository albumentations-team/benchmark, 2026)",
        1,
        "Albumentations 2.0.8 (MIT) in place of AlbumentationsX 2.2.6, 8 photographs in place of 2,000, without Pillow, and turns of "
        "the contestants in one process in place of a process for each transform.",
        ("albumentations", "torchvision", "kornia", "opencv-python-headless"),
    ),
    Published(
        "albumentations-dali",
        "bench.published.albumentations_dali",
        "AlbumentationsX documentation, AlbumentationsX vs DALI Benchmark (albumentations.ai/docs/albumentations-vs-dali/benchmark, "
        "repository albumentations-team/benchmark, 2026)",
        1,
        "All contestants decode JPEGs and resize to 256 first, DALI works on the CPU, and the batch of 256 for 8 workers shrinks with "
        "the workers to the cores of this machine; Albumentations 2.0.8 (MIT) in place of AlbumentationsX 2.2.6.",
        ("albumentations", "nvidia-dali-cuda120", "opencv-python-headless"),
    ),
    Published(
        "kornia-ops",
        "bench.published.kornia_ops",
        "kornia, benchmarks/augmentation: flagship.py, vs_torchvision.py and pipeline.py (github.com/kornia/kornia, 2026-08)",
        1,
        "One thread (flagship.py and pipeline.py have 4), without torch.compile; torchvision interpolates linearly, and its pipeline has "
        "brightness and contrast, as Kornia's.",
        ("kornia", "torchvision", "torch", "albumentations"),
        reads_data=False,
    ),
)
PUBLISHED: Mapping[str, Published] = {one.name: one for one in _ALL}
"""The benchmarks by name."""


def publish_and_show(name: str, settings: RunSettings, *, install: bool = False) -> None:
    """Run one of PUBLISHED, print its table with its source and the machine, and write it to a file.

    Args:
        name: The benchmark.
        settings: The data and the length.
        install: Whether to install missing peers into ``.peers/`` first.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: The benchmark is unknown or takes no data, or nothing decodes.
    """
    chosen = choose("NAME", name, PUBLISHED)
    if settings.source is not None and not chosen.reads_data:
        raise BenchError(
            f"{name} takes no DATA, because its images are random, got {settings.source}: leave it out"
        )
    if install:
        print_to_stderr = partial(print_line, console=Console(stderr=True))
        install_peers([peer for peer in chosen.peers if not is_ready(peer)], print_to_stderr)
    origin = {
        "source": chosen.source,
        "protocol": chosen.protocol,
        "deviation": chosen.deviation,
        "contestants": chosen.versions(),
    }
    module = resolve_name(chosen.module)
    measure_and_show(
        f"bench published {name}",
        module.rows,
        module.MEANING,
        settings,
        order_seed=_ORDER_SEED,
        origin=origin,
    )
    here = machine()
    print_line(f"machine: {here['cpu']}, {here['cores']} cores, {here['system']}")
