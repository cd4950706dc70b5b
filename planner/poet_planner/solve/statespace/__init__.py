# SPDX-License-Identifier: Apache-2.0
"""Lower bounds and schedules from shortest paths over states of memory."""
