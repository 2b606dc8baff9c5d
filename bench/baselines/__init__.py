"""Pipelines of other libraries, written as their users write them; bench/compare/contestants.py lists them.

images.py and videos.py have those in torch's DataLoader or in threads, dali.py and torchvision_cuda.py those that bring
their own loop, ceiling.py decodes only, and peers/ has those that need packages of their own.
"""
