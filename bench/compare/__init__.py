"""The comparison of our pipelines with baselines.

contestants.py lists the participants; ours.py and bench/baselines define them. compare.py lets them take turns, each in
its own process (process.py is our side of it, serve.py the other side), and report.py prints and writes the result.
"""
