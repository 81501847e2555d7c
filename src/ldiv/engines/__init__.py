"""Numbers, no derivatives: what all engines share, and one folder for each kind of engine."""

from ldiv.engines.libraries import rslab

rslab.missing()  # loads it, in two milliseconds, by a thread that stays: the main one
