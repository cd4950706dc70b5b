# SPDX-License-Identifier: Apache-2.0
"""What is done with a schedule: verified, laid out in time, written as C headers."""
