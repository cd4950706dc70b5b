# SPDX-License-Identifier: Apache-2.0
"""Tests of poet: a folder a package, and `support` with what several of them share."""
