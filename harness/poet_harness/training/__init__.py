"""Running training steps under a plan on a board, and holding what it did against what was predicted."""
