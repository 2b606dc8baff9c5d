"""The base class of all decoders that run a DALI pipeline."""

from dali_pipes.decode.dali.driver import Driver
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder


class DecoderByDali(Decoder):
    """A decoder that runs a DALI pipeline; see Decoder.

    Args:
        fetcher: Replaces bad samples.
        augmenter: Augments the outputs of DALI.
        driver: Runs the pipeline.
        read_ahead: Count of steps that threads read and prepare besides the steps that are in DALI.
    """

    def __init__(
        self, fetcher: Fetcher, augmenter: Augmenter, driver: Driver, read_ahead: int = 0
    ) -> None:
        self._fetcher, self._augmenter, self._driver = fetcher, augmenter, driver
        self._side, self._recorder = augmenter.side, augmenter.workers.recorder
        self.depth = driver.depth
        self.capacity = self.depth + self.lookahead + read_ahead

    def close(self) -> None:
        """Discard the started steps."""
        self._driver.drain()
        self._side.close()
