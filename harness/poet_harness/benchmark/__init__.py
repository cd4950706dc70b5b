# SPDX-License-Identifier: Apache-2.0
"""Which configurations to benchmark, measuring one until it is known well enough, and the run over all of them."""
