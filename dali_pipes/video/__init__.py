"""Take clips from videos: choose their frames, decode them, and average scores over the clips of a video."""
