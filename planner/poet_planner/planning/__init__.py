# SPDX-License-Identifier: Apache-2.0
"""From a request to a verified plan."""
