"""The engine "fused": kernels of gpu_aug that read each image once and write it once."""
