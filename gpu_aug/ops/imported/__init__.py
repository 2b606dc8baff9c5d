"""Operations that nothing in this package makes but the converter of Albumentations.

They carry the laws of that library, so that its pipelines keep their meaning: no preset, policy, example or benchmark uses
them. They are operations like all others, and `from gpu_aug import Spatter` works. Operations that share most of their code
with one of another folder, such as Rotate and Blur, stay with it.
"""
