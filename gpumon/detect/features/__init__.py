"""What detectors know of jobs in numbers: features of GPUs and jobs, computed once an evaluation.

Sees history, facts and data sheets; knows no name of a job, a user or a program. `table` is the
entrance, `feature` says what one is.
"""
