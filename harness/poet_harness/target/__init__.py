# SPDX-License-Identifier: Apache-2.0
"""Ways to a device under test: a serial port or URL, a program's standard streams, or the emulated board."""
