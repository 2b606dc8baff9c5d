"""Pictures of what a recipe makes of data: images beside their originals, clips as strips of frames."""

from dali_pipes.preview.animation import write_animation
from dali_pipes.preview.clip_engines import clip_engines
from dali_pipes.preview.clips import ClipPictures, clip_pictures
from dali_pipes.preview.engines import preview_engines
from dali_pipes.preview.images import Preview, preview_images
from dali_pipes.preview.sound import sound_samples, sound_videos
from dali_pipes.preview.strips import render_strips
from dali_pipes.preview.words import draw_words

__all__ = [
    "ClipPictures",
    "Preview",
    "clip_engines",
    "clip_pictures",
    "draw_words",
    "preview_engines",
    "preview_images",
    "render_strips",
    "sound_samples",
    "sound_videos",
    "write_animation",
]
