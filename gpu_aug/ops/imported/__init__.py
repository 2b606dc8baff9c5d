"""Operations that only the converter of Albumentations produces.

They have the distributions of that library, so that its pipelines keep their meaning; no preset, policy, example or benchmark
uses them. They can be used like all other operations: ``from gpu_aug import Spatter`` works. Operations that share most of
their code with one of another folder, such as Rotate and Blur, are in that folder.
"""
