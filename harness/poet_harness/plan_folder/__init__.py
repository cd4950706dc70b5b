# SPDX-License-Identifier: Apache-2.0
"""What a folder of ``poet-plan`` says to a harness: graph, schedule, program, inference."""
