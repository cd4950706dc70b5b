# SPDX-License-Identifier: Apache-2.0
"""The agent: PyTorch on a Linux board as a device under test, which speaks the protocol of docs/SPEC.md, section 6."""
