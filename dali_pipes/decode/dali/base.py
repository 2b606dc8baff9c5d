"""What all decoders with a pipeline of DALI share."""

from dali_pipes.decode.dali.driver import Driver
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder


class DecoderByDali(Decoder):
    """A decoder with a pipeline of DALI; see Decoder.

    Args:
        fetcher: Deals with bad samples.
        augmenter: Goes on from what DALI makes.
        driver: The pipeline.
        read_ahead: How many steps threads read and prepare besides those that are in DALI.
    """

    def __init__(
        self, fetcher: Fetcher, augmenter: Augmenter, driver: Driver, read_ahead: int = 0
    ) -> None:
        self._fetcher, self._augmenter, self._driver = fetcher, augmenter, driver
        self._side, self._recorder = augmenter.side, augmenter.workers.recorder
        self.depth = driver.depth
        self.capacity = self.depth + self.lookahead + read_ahead

    def close(self) -> None:
        """Drop the steps that were started."""
        self._driver.drain()
        self._side.close()
