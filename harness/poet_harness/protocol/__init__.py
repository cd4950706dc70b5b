# SPDX-License-Identifier: Apache-2.0
"""The serial protocol of docs/SPEC.md, section 6: frames, a link that survives a bad line, and the typed verbs."""
