"""Files, local or remote, that are read in parts: memory maps and content hashes."""

from readers.storage.blob.blob import Blob, BlobPayload, Content
from readers.storage.blob.content_file import ContentFile
from readers.storage.blob.file import FileState, LocalBlob, is_url, open_blob
from readers.storage.blob.mmap_pages import map_file

__all__ = [
    "Blob",
    "BlobPayload",
    "Content",
    "ContentFile",
    "FileState",
    "LocalBlob",
    "is_url",
    "map_file",
    "open_blob",
]
