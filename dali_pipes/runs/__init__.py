"""The record of a run: its audit, its bad samples, its attempts, and how a step of it is made again."""
