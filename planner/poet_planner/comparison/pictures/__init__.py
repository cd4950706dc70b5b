# SPDX-License-Identifier: Apache-2.0
"""Pictures of many plans: curves over RAM and deadline, maps, the largest batch."""
