"""ldiv is imported before pytest collects a file of it, which would load that file a second time."""

import ldiv  # noqa: F401
