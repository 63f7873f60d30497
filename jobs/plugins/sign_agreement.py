"""A norm by which itersel selects features: those on whose sign the shards agree, the larger the better.

[plugins]
modules = ["plugins/sign_agreement.py"]
[select]
norm = "sign-agreement"
"""

import numpy as np

from mpitune.plugins import WeightColumns, norm, sums_of


@norm("sign-agreement")
def sign_agreement(columns: WeightColumns, shards: int) -> np.ndarray:
    """|mean weight| times the majority of one sign among all shards, from 0 to 1; absent weights have no sign."""
    majority = np.abs(sums_of(columns.ptr, np.sign(columns.value))) / shards
    return majority * np.abs(sums_of(columns.ptr, columns.value) / shards)
