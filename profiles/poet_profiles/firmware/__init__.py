# SPDX-License-Identifier: Apache-2.0
"""What host and firmware both know: the operators, and the Arduino library's manifest."""
