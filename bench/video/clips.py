"""Former address of `bench.compare.clips`."""

from bench.compare.clips import (
    ClipSettings,
    clip_settings,
    open_sound_videos,
    usual_batch_size,
    usual_recipe,
)

__all__ = [
    "ClipSettings",
    "clip_settings",
    "open_sound_videos",
    "usual_batch_size",
    "usual_recipe",
]
