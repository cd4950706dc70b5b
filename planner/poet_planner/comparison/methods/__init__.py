# SPDX-License-Identifier: Apache-2.0
"""Schedulers to compare with, one a module, each with a record of what it can do."""
