"""Run all checks and measurements on a machine with a GPU in one short run (``make gpu``)."""
