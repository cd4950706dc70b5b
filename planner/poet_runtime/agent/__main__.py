# SPDX-License-Identifier: Apache-2.0
"""`python -m poet_runtime.agent`."""

from poet_runtime.agent.cli import main

main()
