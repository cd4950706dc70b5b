# SPDX-License-Identifier: Apache-2.0
"""The peripherals of the emulated chips, a kind a file; where they lie and which a chip has is said in its own file."""
