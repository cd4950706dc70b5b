# SPDX-License-Identifier: Apache-2.0
"""What the command lines of harness and planner share: options, signals, output, version."""
