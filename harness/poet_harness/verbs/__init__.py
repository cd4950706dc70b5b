# SPDX-License-Identifier: Apache-2.0
"""One module a verb of ``poet-harness``: ``NAME`` and ``command``."""
