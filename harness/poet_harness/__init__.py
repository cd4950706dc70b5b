# SPDX-License-Identifier: Apache-2.0
"""The harness: profiles boards, flashes plans, trains on boards and compares with what was predicted."""
