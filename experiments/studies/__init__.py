"""Which policy and budget win on a class of workload, by how much, and who pays.

    python -m experiments.studies          all four: figures and docs/studies.md
    python -m experiments.studies voice    one of them

Each study is one file: its workload, its candidates, its limits and what it says about the numbers.
"""
