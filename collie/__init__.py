"""Collie finds performance anomalies in RDMA subsystems before production does."""

import os

# The matrices of the search are small: more threads cost more than they bring, above all where campaigns run side by
# side. Read when numpy is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

__version__ = "0.1.0"
