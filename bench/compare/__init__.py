"""Compare our pipelines with baselines.

contestants.py lists the participants; ours.py and bench/baselines define them. compare.py runs them alternately for
some seconds (a turn), each in its own process (process.py is our side of it, serve.py the other side), and report.py
prints and writes the result.
"""
