"""Pipelines of other libraries, written like their users write them; bench/compare/contestants.py lists them.

images.py and videos.py have pipelines in torch's DataLoader or in threads, dali.py and torchvision_cuda.py have
libraries with their own loop, ceiling.py only decodes, and peers/ has pipelines that need additional packages.
"""
