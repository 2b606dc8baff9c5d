"""What limits an input pipeline on this machine, and what to change: gpu-aug tune."""
