# SPDX-License-Identifier: Apache-2.0
"""Power meters behind one small interface (docs/adding_a_meter.md): one file an instrument."""
