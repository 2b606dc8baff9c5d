"""Arrow files, and what Hugging Face's datasets save."""

from readers.formats.arrow.dataset import ArrowDataset

__all__ = ["ArrowDataset"]
