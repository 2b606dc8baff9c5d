"""Containers of video: their packets, and where a file is cut off or broken."""
