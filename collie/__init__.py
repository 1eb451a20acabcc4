"""Collie finds performance anomalies in RDMA subsystems before production does."""

import os

# The matrices of the search are small, so more threads cost more than they gain, above all where campaigns run side by
# side. numpy reads these variables when it is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

__version__ = "0.1.0"
