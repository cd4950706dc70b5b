# SPDX-License-Identifier: Apache-2.0
"""Frozen layers on int8, and inputs of bytes."""
