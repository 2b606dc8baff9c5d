"""Opening what commands are given: at random where that is possible, else from front to back."""

from readers import Dataset, SourceError, open_dataset
from readers.formats import FORMATS
from readers.stream import TarStream


def open_source(
    source: str, *, format: str | None = None, allow_pipe: bool = False
) -> Dataset | TarStream:
    """Open a source, or a stream where it can only be read forward.

    Args:
        source: As for `readers.open_dataset`, or ``pipe:COMMAND``.
        format: A name in `readers.formats.FORMATS`; None tells it from the source.
        allow_pipe: Whether the source may be a command that is run.

    Raises:
        SourceError: It cannot be opened, or is a command and that was not allowed.
    """
    if source.startswith("pipe:"):
        if not allow_pipe:
            raise SourceError(f"{source!r} runs a command: add --allow-pipe if you trust it")
        return TarStream(source, allow_pipe=True)
    if format == "stream":
        return open_dataset(source, format="stream")
    try:
        return open_dataset(source, format=format)  # type: ignore[arg-type] # judged there
    except SourceError as error:
        if format or not source.lower().endswith(FORMATS["stream"].suffixes):
            raise
        try:
            return open_dataset(source, format="stream")
        except SourceError:
            raise error from None
