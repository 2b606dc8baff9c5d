"""``gpu-aug index``."""

from bench.cli.options import Data, Processes, SourceOptions


def index(data: Data, *, source: SourceOptions, workers: Processes = None) -> None:
    """Build the indexes that DATA needs to be read at random; a second run goes on with the first.

    Videos are looked through as well. Bad ones are named, and are no failure: an index says which they are.
    (gpu-aug inspect has exit code 1 for them.)
    """
    from rich.console import Console

    from bench.cli.index_tables import print_shards, print_videos
    from bench.output.progress import bytes_bar, samples_bar
    from bench.output.text import print_left_out, print_plain, printable
    from readers.prepare import indexing
    from readers.prepare.source import title_of

    console = Console()
    with bytes_bar(console) as shards, samples_bar(console) as videos:

        def on_videos(done: int, total: int) -> None:
            shards.close()  # since a terminal shows one bar at a time
            videos(done, total)

        found = indexing.index(
            data, num_workers=workers, on_shards=shards, on_videos=on_videos, **source.asked()
        )
    if found.shards:
        print_shards(found, console)
    elif found.videos is None:
        title = title_of(found.dataset)
        print_plain(console, f"{printable(data)} needs no index (format: {title})")
    if found.videos is not None:
        print_videos(found.files, found.videos, console)
    print_left_out(data, found.dataset, console)
