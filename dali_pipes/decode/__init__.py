"""Image decoders: OpenCV and Pillow, our own JPEG decoder on CPU and GPU, and NVIDIA DALI."""
