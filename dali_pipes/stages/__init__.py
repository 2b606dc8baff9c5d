"""The stages of a batch, and how its steps are kept in flight.

To follow a batch, read loops (a loop starts steps and hands batches over), production (opens its source of batches), pipeline
(the steps in flight), fetch and read_samples (encoded samples and their draws), a decoder in `dali_pipes.decode` (canvases),
augment (images) and assemble (the Batch). data has the types that stages pass on. Helper processes and Ray make the same
batches: helper_pool starts the processes, helper_main is their program, remote_production makes the steps in them.
"""
