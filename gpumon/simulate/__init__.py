"""A step-level physical model of jobs on GPUs, with labelled faults.

Jobs run programs: sequences of phases as a training step or a request has them. Counters follow
from phases by the definitions of the catalogue. Every state is a pure function of seed and time.
`cluster` is who runs what, `blocks` what its nodes report; `shifted` is a second generator.
"""
