"""The stages that make a batch, and the pipeline that keeps several steps in flight.

To follow a batch, read these modules in order: loops (a loop starts steps and hands batches over), production (opens
the batch source of a loop), pipeline (the steps in flight), fetch and read_samples (encoded samples and their draws), a
decoder in `dali_pipes.decode` (canvases), augment (images) and assemble (the Batch). data defines the types that stages
pass on. Helper processes and Ray workers make the same batches: helper_pool starts the processes, helper_main is their
program, and remote_production makes the steps in them.
"""
