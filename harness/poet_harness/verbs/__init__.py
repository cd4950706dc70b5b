"""One module a verb of ``poet-harness``: ``NAME`` and ``command``."""
