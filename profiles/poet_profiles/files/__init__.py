# SPDX-License-Identifier: Apache-2.0
"""Files: written whole or not at all, read with one line for what is wrong, locked, cached."""
