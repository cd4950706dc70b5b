# SPDX-License-Identifier: Apache-2.0
"""Schedulers to compare with: one method a module."""
