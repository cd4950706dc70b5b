# SPDX-License-Identifier: Apache-2.0
"""No test depends on how fast the machine is: an example of hypothesis's may take as long as it takes."""

from hypothesis import settings

settings.register_profile("poet", deadline=None)
settings.load_profile("poet")
