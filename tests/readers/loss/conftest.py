from tests.readers.formats.conftest import no_pauses

__all__ = ["no_pauses"]
