# SPDX-License-Identifier: Apache-2.0
"""A plan in words, tables and figures."""
