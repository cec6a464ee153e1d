"""The evidence: what the paper claims, measured. An experiment is a module; `experiment.py` says what it must have."""
