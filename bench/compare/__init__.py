"""The comparison of our pipelines with baselines.

contestants.py lists who takes part; ours.py and bench/baselines say what each does. compare.py lets them take turns, each
in a process of its own (process.py is our side of it, serve.py the other), and report.py prints and writes the result.
"""
