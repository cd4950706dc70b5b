# SPDX-License-Identifier: Apache-2.0
"""One measurement with a power meter: windows of calls, and the board asleep."""
