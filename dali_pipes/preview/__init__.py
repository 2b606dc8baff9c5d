"""Draw pictures of augmented data: images next to their originals, and clips as strips of frames."""

from dali_pipes.preview.clips import ClipPictures, clip_engines, clip_pictures
from dali_pipes.preview.decodable_samples import find_decodable_videos, take_decodable_samples
from dali_pipes.preview.draw_descriptions import draw_words
from dali_pipes.preview.images import preview_engines, preview_images
from dali_pipes.preview.page import Preview
from dali_pipes.preview.strips import render_strips, write_animation

__all__ = [
    "ClipPictures",
    "Preview",
    "clip_engines",
    "clip_pictures",
    "draw_words",
    "find_decodable_videos",
    "preview_engines",
    "preview_images",
    "render_strips",
    "take_decodable_samples",
    "write_animation",
]
