# SPDX-License-Identifier: Apache-2.0
"""What a node of a graph costs on a board, fitted to its profile."""
