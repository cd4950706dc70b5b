# SPDX-License-Identifier: Apache-2.0
"""Cards in this computer: images and block devices, what a plan keeps on them, how it gets there and back."""
